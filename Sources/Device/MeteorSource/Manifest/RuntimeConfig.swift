import BundleValues

/// The runtime configuration in the index page of a Meteor client (METEOR section 2).
package struct RuntimeConfig: Sendable, Equatable {
    /// `ROOT_URL` as written.
    package var rootURL: String?
    /// `appId`; nil if it is missing or empty.
    package var appId: String?
    /// `DDP_DEFAULT_CONNECTION_URL`, the DDP socket of the server.
    package var ddpURL: String?
    /// The version of the page's client; nil if the page does not state it.
    package var pageVersion: String?

    package init(rootURL: String? = nil, appId: String? = nil, ddpURL: String? = nil, pageVersion: String? = nil) {
        self.rootURL = rootURL
        self.appId = appId
        self.ddpURL = ddpURL
        self.pageVersion = pageVersion
    }

    /// Reads the configuration of a page; `architecture` selects the version.
    ///
    /// Members that are missing or have another type are nil. Throws `PageRefusal.noRuntimeConfig` if there is no
    /// configuration or if it can be read in several ways.
    package static func read(page: [UInt8], architecture: String = "web.cordova") throws(PageRefusal) -> RuntimeConfig {
        guard String(validating: page, as: UTF8.self) != nil else { throw .noRuntimeConfig("the page is not UTF-8") }
        guard let encoded = encodedConfig(in: page) else {
            throw .noRuntimeConfig("the page has no __meteor_runtime_config__")
        }
        let text = try decoded(encoded)
        do throws(JSONError) {
            var reader = try RuntimeConfigReader(text, architecture: architecture)
            return try reader.read()
        } catch {
            throw .noRuntimeConfig("\(error)")
        }
    }

    // MARK: The text

    private static let assignment = Array("__meteor_runtime_config__ = JSON.parse(decodeURIComponent(\"".utf8)

    /// Returns the text between the quotes of the first assignment.
    private static func encodedConfig(in page: [UInt8]) -> ArraySlice<UInt8>? {
        guard page.count >= assignment.count else { return nil }
        for start in 0...(page.count - assignment.count)
        where page[start] == assignment[0] && page[start..<start + assignment.count].elementsEqual(assignment) {
            let text = page[(start + assignment.count)...]
            return text.firstIndex(of: UInt8(ascii: "\"")).map { text[..<$0] }
        }
        return nil
    }

    /// Decodes like JavaScript's `decodeURIComponent`, which keeps plus signs.
    private static func decoded(_ encoded: ArraySlice<UInt8>) throws(PageRefusal) -> [UInt8] {
        guard let text = PercentEncoding.decodeStrictly(encoded) else {
            throw .noRuntimeConfig("a '%' without two hex digits")
        }
        return text
    }
}

/// Reads the configuration in one pass and skips the settings.
private struct RuntimeConfigReader {
    private static let longestText = 8192
    private static let deepest = 64

    private var reader: JSONReader
    private let versionPath: String
    /// The paths of the needed texts, and of the objects that contain some.
    private let texts: Set<String>
    private let objects: Set<String>
    private var seen: Set<String> = []
    private var found: [String: String] = [:]

    init(_ text: [UInt8], architecture: String) throws(JSONError) {
        reader = try JSONReader(text, maximumBytes: text.count, maximumDepth: Self.deepest)
        let versions = "autoupdate.versions"
        versionPath = "\(versions).\(architecture).version"
        texts = ["ROOT_URL", "DDP_DEFAULT_CONNECTION_URL", "appId", "autoupdateVersionCordova", versionPath]
        objects = ["autoupdate", versions, "\(versions).\(architecture)"]
    }

    mutating func read() throws(JSONError) -> RuntimeConfig {
        try reader.enterObject()
        try readMembers(of: "")
        try reader.finish()
        return RuntimeConfig(
            rootURL: found["ROOT_URL"], appId: found["appId"].flatMap { $0.isEmpty ? nil : $0 },
            ddpURL: found["DDP_DEFAULT_CONNECTION_URL"],
            pageVersion: found[versionPath] ?? found["autoupdateVersionCordova"])
    }

    /// Rejects a repeated name, because parsers differ in which one they use.
    private mutating func readMembers(of prefix: String) throws(JSONError) {
        while true {
            let offset = reader.position
            guard let name = try reader.nextMember(maximumBytes: Self.longestText) else { return }
            let path = prefix + name
            guard texts.contains(path) || objects.contains(path) else {
                _ = try reader.skipValue()
                continue
            }
            if !seen.insert(path).inserted { throw .duplicateMember(name: name, offset: offset) }
            if texts.contains(path) {
                found[path] = try reader.readText(maximumBytes: Self.longestText)
            } else if try reader.enterObjectOrSkip() {
                try readMembers(of: path + ".")
            }
        }
    }
}
