/// Puts the `WebAppLocalServer` shim into a page, so that a Meteor application finds the interface it expects.
package enum ShimInjector {
    /// The shim's source text, from `web-app-local-server.js`.
    package static var shim: [UInt8] { PackageResources.web_app_local_server_js }

    /// The page with the shim as a script before its `</head>`, else before its `</body>`, else at its end.
    ///
    /// The script carries the nonce of the page's own scripts. A page that has the shim is returned as it is; all bytes of
    /// the page are kept, in their order.
    package static func inject(into page: [UInt8]) -> [UInt8] {
        inject(shim, into: page)
    }

    /// `script` must not contain what would end or hide it: `</script`, `<script`, `<!--`.
    static func inject(_ script: [UInt8], into page: [UInt8]) -> [UInt8] {
        let outline = HTMLOutline(page)
        if outline.scripts.contains(where: { !$0.isInTemplate && page[$0.text].elementsEqual(script) }) { return page }
        let place = outline.headEnd ?? outline.bodyEnd ?? outline.end
        let attribute = outline.nonce.map { " nonce=\"\($0)\"" } ?? ""
        var result: [UInt8] = []
        result.reserveCapacity(page.count + script.count + 64)
        result += page[..<place]
        result += Array("<script\(attribute)>".utf8)
        result += script
        result += Array("</script>".utf8)
        result += page[place...]
        return result
    }
}
