package import BundleTesting

/// A case of the Cordova suite about the local server (METEOR section 8.3, CW-01 to CW-26): one GET and the expected
/// response.
package struct CordovaServerCase: Sendable {
    /// An expectation of the response.
    package enum Expectation: Sendable {
        /// The index page, containing this text.
        case page(containing: String)
        /// Status 200 and the bytes of the file at `path`.
        case file
        case missing
        /// An entity tag that starts with the hash of the entry at `path`.
        case tag
        /// A header with exactly this value. `{hash}` is the hash of the entry at `path`, `{map}` the URL of its source
        /// map.
        case field(String, String)
    }

    /// The number, such as `CW-01`.
    package let number: String
    /// The requested path and query, with `{hash}` and `{map}` as above.
    package let target: String
    /// The path of the manifest entry that the case is about; empty for none.
    package let path: String
    package let expectations: [Expectation]

    init(_ number: String, _ target: String, of path: String = "", _ expectations: Expectation...) {
        self.number = number
        self.target = target
        self.path = path
        self.expectations = expectations
    }

    package static let all = places + caching + types

    private static let index = Expectation.page(containing: "<title>mobileapp</title>")
    private static let revalidated = Expectation.field("Cache-Control", "no-cache")

    private static let places: [CordovaServerCase] = [
        .init("CW-01", "/", .page(containing: "window.WebAppLocalServer = {")),
        .init("CW-02", "/", index),
        .init("CW-03", "/some-file", of: "app/some-file", .file),
        .init("CW-04", "/cordova_plugins.js", of: "cordova_plugins.js", .file),
        .init("CW-05", "/anything", index),
        .init("CW-06", "/application/packages/meteor.js", index),
        .init("CW-07", "/not-in-manifest", index),
        .init("CW-08", "/application/not-in-manifest", index),
        .init("CW-09", "/favicon.ico", .missing),
    ]

    private static let caching: [CordovaServerCase] = [
        .init("CW-10", "/packages/meteor.js", of: "packages/meteor.js", .file, .tag),
        .init(
            "CW-11", "/packages/meteor.js?9418708e9519b747d9d631d85ea85b90c0b5c70c", of: "packages/meteor.js", .file,
            revalidated),
        .init("CW-12", "/packages/meteor.js", of: "packages/meteor.js", .file, revalidated),
        .init("CW-13", "/some-video.mp4", of: "app/some-video.mp4", .file, .field("Accept-Ranges", "bytes")),
        .init(
            "CW-14", "/app/template.mobileapp.js", of: "app/template.mobileapp.js", .file,
            .field("X-SourceMap", "{map}")),
        .init(
            "CW-15", "{map}", of: "app/template.mobileapp.js", revalidated,
            .field("Content-Type", "application/json; charset=utf-8")),
    ]

    private static let types: [CordovaServerCase] = [
        typed("CW-16", "/packages/meteor.js", of: "packages/meteor.js", "text/javascript; charset=utf-8"),
        typed("CW-17", "/merged-stylesheets.css", of: "merged-stylesheets.css", "text/css"),
        typed("CW-18", "/some-page.html", "text/html; charset=utf-8"),
        typed("CW-19", "/some-javascript.js", "text/javascript; charset=utf-8"),
        typed("CW-20", "/some-stylesheet.css", "text/css"),
        typed("CW-21", "/some-data.json", "application/json; charset=utf-8"),
        typed("CW-22", "/some-text.txt", "text/plain; charset=utf-8"),
        typed("CW-23", "/some-image.png", "image/png"),
        typed("CW-24", "/some-image.jpg", "image/jpeg"),
        typed("CW-25", "/some-video.mp4", "video/mp4"),
        typed("CW-26", "/some-file", "application/octet-stream"),
    ]

    private static func typed(
        _ number: String, _ url: String, of path: String? = nil, _ type: String
    ) -> CordovaServerCase {
        CordovaServerCase(
            number, url, of: path ?? "app\(url)", .file, .field("Content-Type", type), .tag)
    }
}

extension CordovaServerCase {
    /// The bundle under test: the hash, source map URL and bytes of files by path.
    package struct Bundle: Sendable {
        let hash: @Sendable (String) -> String
        let sourceMapURL: @Sendable (String) -> String
        let content: @Sendable (String) throws -> [UInt8]

        package init(
            hash: @escaping @Sendable (String) -> String, sourceMapURL: @escaping @Sendable (String) -> String,
            content: @escaping @Sendable (String) throws -> [UInt8]
        ) {
            self.hash = hash
            self.sourceMapURL = sourceMapURL
            self.content = content
        }
    }

    /// Returns the requested path and query.
    package func target(in bundle: Bundle) -> String { filled(target, bundle) }

    /// Returns the deviations of `answer`, one line each.
    package func findings(in answer: RawResponse, of bundle: Bundle) throws -> [String] {
        try expectations.compactMap { expectation in
            switch expectation {
            case .page(let text):
                let isPage = answer.status == 200 && answer["Content-Type"] == "text/html; charset=utf-8"
                return isPage && answer.text.contains(text) ? nil : "status \(answer.status), no page with \(text)"
            case .file:
                let isFile = try answer.status == 200 && answer.body == bundle.content(path)
                return isFile ? nil : "status \(answer.status), not the bytes of \(path): \(answer.text.prefix(200))"
            case .tag:
                let tag = answer["ETag"] ?? ""
                return tag.hasPrefix("\"\(bundle.hash(path))") ? nil : "ETag is \(tag), without the hash of \(path)"
            case .missing: return answer.status == 404 ? nil : "status \(answer.status), not 404"
            case .field(let name, let value):
                let wanted = filled(value, bundle)
                return answer[name] == wanted ? nil : "\(name) is \(answer[name] ?? "not there"), not \(wanted)"
            }
        }
    }

    private func filled(_ text: String, _ bundle: Bundle) -> String {
        text.replacing("{hash}", with: bundle.hash(path)).replacing("{map}", with: bundle.sourceMapURL(path))
    }
}
