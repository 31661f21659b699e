import BundleTesting

/// The responses of a server without faults (METEOR sections 1.9 and 8.1).
struct ServerRules: Sendable {
    /// The path of the ROOT_URL without trailing slash; empty for the root.
    let rootPath: String
    /// The prefix of the architecture, `/__cordova`.
    let prefix: String
    let tags: MeteorServer.EntityTags

    /// Returns the decoded path below the root and the first prefix, or nil outside the site.
    ///
    /// `whole` is the path as in a manifest, and `bare` the same without one prefix.
    func place(of path: String) -> (whole: String, bare: String)? {
        guard let path = URIComponent.decode(path), path.hasPrefix(rootPath) else { return nil }
        let whole = String(path.dropFirst(rootPath.count))
        if whole == prefix { return (whole, "/") }
        guard whole.hasPrefix(prefix + "/") else { return nil }
        return (whole, String(whole.dropFirst(prefix.count)))
    }

    /// Returns the key of a path's faults, which has no prefix.
    func faultKey(of path: String) -> String {
        guard var bare = place(of: path)?.bare else { return path }
        while bare.hasPrefix(prefix + "/") { bare = String(bare.dropFirst(prefix.count)) }
        return bare
    }

    func answer(_ request: MeteorRequest, from version: ServedVersion?) throws -> Route {
        guard ["GET", "HEAD", "OPTIONS"].contains(request.method) else {
            return Route(status: 405).with { $0.headers = [("Allow", "OPTIONS, GET, HEAD")] }
        }
        if request.method == "OPTIONS" { return Route().with { $0.headers = [("Allow", "OPTIONS, GET, HEAD")] } }
        guard let version, let place = place(of: request.path) else {
            return Route(Array("Unknown path; the client is at \(rootPath)\(prefix)/\n".utf8), status: 404)
        }
        return try page(request, place, of: version)
    }

    private func page(_ request: MeteorRequest, _ place: (whole: String, bare: String), of version: ServedVersion)
        throws
        -> Route
    {
        if place.bare == "/manifest.json" { return try manifest(of: version) }
        if place.bare != "/", place.bare != "/index.html",
            let answer = try asset(request, place.whole, of: version) ?? asset(request, place.bare, of: version)
        {
            return answer
        }
        if place.bare != "/", request.query.split(separator: "&").contains("meteor_dont_serve_index=true") {
            return Route(Array("404 Not Found".utf8), status: 404).with { $0.headers = [("Cache-Control", "no-cache")] }
        }
        let page = version.contents("index.html") ?? Array("this version has no index.html\n".utf8)
        return Route(page).with { $0.headers = [("Content-Type", "text/html; charset=utf-8")] }
    }

    private func manifest(of version: ServedVersion) throws -> Route {
        let bytes = version.contents("manifest.json") ?? []
        let tag = tags == .contentDigest ? try SHA1.hex(of: bytes) : version.version ?? ""
        return Route(bytes).with { route in
            route.headers = [("Content-Type", "application/json; charset=UTF-8"), ("ETag", "\"\(tag)\"")]
        }
    }

    /// Returns the response for a URL path that the manifest lists or that is an unlisted file.
    private func asset(_ request: MeteorRequest, _ path: String, of version: ServedVersion) throws -> Route? {
        let label = version.labels[path]
        let isListed = label != nil || version.sourceMaps.contains(path)
        guard isListed || !path.hasPrefix(prefix + "/") else { return nil }
        guard let bytes = version.contents(ServerPath.ofFile(path, prefix: prefix)) else { return nil }
        let tag = try entityTag(of: bytes, label, path, of: version)
        let isKept = label?.isCacheable ?? version.sourceMaps.contains(path)
        var headers = [("Content-Type", ServedTypes.of(path, entryType: label?.type)), ("Accept-Ranges", "bytes")]
        if tags == .manifestHash {
            headers.append(("Cache-Control", isKept ? "public, max-age=31536000" : "public, max-age=0"))
            if isKept { headers.append(("Vary", "User-Agent")) }
            if let map = label?.sourceMapURL { headers.append(("X-SourceMap", rootPath + map)) }
        }
        if request["If-None-Match"] == tag {
            let fields = headers + [("ETag", tag)]
            return Route(status: 304).with { route in
                route.headers = fields
                route.framing = .none
            }
        }
        let fields = headers
        return Route.resource(bytes, entityTag: tag).with { $0.headers = fields }
    }

    private func entityTag(
        of bytes: [UInt8], _ label: ServedVersion.Label?, _ path: String, of version: ServedVersion
    ) throws -> String {
        if tags == .manifestHash, let hash = label?.hash { return "\"\(hash)\"" }
        // The file server's own tag, which does not identify the content.
        if tags == .manifestHash, version.sourceMaps.contains(path) {
            return "W/\"\(String(bytes.count, radix: 16))-18c2f6d1a00\""
        }
        return "\"\(try SHA1.hex(of: bytes))\""
    }
}
