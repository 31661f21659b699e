import BundleCore
package import BundleValues

/// The page of a bundle with its runtime config (METEOR section 2).
package struct IndexPage: Sendable {
    /// The location of the version in the page.
    package enum VersionStyle: Sendable {
        /// `autoupdateVersionCordova`, before Meteor 1.7.1.
        case autoupdateVersionCordova
        /// `autoupdate.versions["web.cordova"].version`, from Meteor 1.7.1.
        case autoupdateVersions
        case none
    }

    package var title = "mobileapp"
    /// `ROOT_URL`; nil to omit it.
    package var rootURL: String? = "http://localhost:3000/"
    /// `appId`; nil to omit it.
    package var appId: String? = "test-app-id"
    /// `DDP_DEFAULT_CONNECTION_URL`; nil to omit it.
    package var ddpURL: String?
    package var versionStyle = VersionStyle.autoupdateVersions
    /// A version that differs from that of the bundle.
    package var version: String?
    /// Whether the page loads `/cordova.js`, which no manifest lists.
    package var asksForCordovaScript = false
    /// The HTML of the body before the scripts.
    package var body = ""
    /// A complete page, to which only the runtime config script is added.
    package var template: [UInt8]?
    /// The bytes of the page, instead of all other values.
    package var bytes: [UInt8]?

    package init() {}

    /// Renders the page for a bundle of this version with these scripts and style sheets.
    func render(version: String, publicSettings: JSONValue?, scripts: [String], styles: [String]) -> [UInt8] {
        if let bytes { return bytes }
        let config = runtimeConfig(version: self.version ?? version, publicSettings)
        let script = "<script type=\"text/javascript\">\(Self.assignment(of: config))</script>"
        if let template {
            let start = HTMLOutline(template).headStart
            return template[..<start] + Array("\(script)\n".utf8) + template[start...]
        }
        var page = "<!DOCTYPE html>\n<html>\n<head>\n  <meta charset=\"utf-8\">\n  <title>\(title)</title>\n"
        for url in styles {
            page += "  <link rel=\"stylesheet\" type=\"text/css\" class=\"__meteor-css__\" href=\"\(url)\">\n"
        }
        page += "  \(script)\n"
        if asksForCordovaScript { page += "  <script type=\"text/javascript\" src=\"/cordova.js\"></script>\n" }
        page += "</head>\n<body>\n\(body)"
        for url in scripts { page += "<script type=\"text/javascript\" src=\"\(url)\"></script>\n" }
        return Array((page + "</body>\n</html>\n").utf8)
    }

    /// Returns the assignment as Meteor writes it: with one space on each side of the equals sign.
    package static func assignment(of config: JSONObject) -> String {
        let text = URIComponent.encode(JSONWriter.bytes(of: .object(config)))
        return "__meteor_runtime_config__ = JSON.parse(decodeURIComponent(\"\(text)\"))"
    }

    private func runtimeConfig(version: String, _ publicSettings: JSONValue?) -> JSONObject {
        var config: JSONObject = ["meteorRelease": .string("METEOR@2.16"), "meteorEnv": .object([:])]
        config["PUBLIC_SETTINGS"] = publicSettings ?? .object([:])
        config["ROOT_URL"] = rootURL.map(JSONValue.string)
        config["ROOT_URL_PATH_PREFIX"] = .string(rootURL.map(Self.path) ?? "")
        config["DDP_DEFAULT_CONNECTION_URL"] = ddpURL.map(JSONValue.string)
        config["appId"] = appId.map(JSONValue.string)
        switch versionStyle {
        case .autoupdateVersionCordova: config["autoupdateVersionCordova"] = .string(version)
        case .autoupdateVersions:
            let names = ["version", "versionRefreshable", "versionNonRefreshable", "versionReplaceable"]
            var versions: JSONObject = [:]
            for name in names { versions[name] = .string(version) }
            config["autoupdate"] = .object(["versions": .object(["web.cordova": .object(versions)])])
        case .none: break
        }
        return config
    }

    /// Returns the path of a URL without its trailing slash: `/sub` of `https://h/sub/`.
    private static func path(of url: String) -> String {
        let parts = url.split(separator: "/", omittingEmptySubsequences: true).dropFirst(2)
        return parts.map { "/\($0)" }.joined()
    }
}
