import BundleCore
import BundleValues
import BundleTesting
import Glibc
import Testing

/// One publisher and one device in a folder: a key pair, a feed, a store and web folders.
final class Site {
    let folder: TemporaryFolder
    let keyId: String

    var key: String { folder.file("release.key.pem") }
    var trust: String { folder.file("release.pub.pem") }
    var feed: String { folder.file("feed") }
    var store: String { folder.file("store") }
    var manifest: String { "\(feed)/manifest.json" }

    /// The key pair of all sites. Creating it is slow, so it happens once.
    private static let keys = Result {
        let folder = try TemporaryFolder()
        let made = try Clientctl.run(["keys", "generate", "--out", folder.file("release"), "--json"])
        let files = try withExtendedLifetime(folder) { try TreeSnapshot(of: folder.path).files }
        return (id: try #require(made.string("keyId")), files: files)
    }

    init(under parent: String = TemporaryFolder.usualParent) throws {
        folder = try TemporaryFolder(under: parent)
        let keys = try Self.keys.get()
        keyId = keys.id
        try folder.writeTree(keys.files, to: ".")
    }

    /// Returns a small client in which two files differ between versions.
    static func client(_ version: String) -> [String: [UInt8]] {
        [
            "index.html": bytes("<!doctype html><title>\(version)</title>\n"),
            "app/main.\(version).js": bytes("console.log('\(version)')\n"),
            "app/shared.js": bytes("export const shared = 1\n"),
            "img/ö €.svg": bytes("<svg/>\n"),
            "empty": [],
        ]
    }

    /// Writes a client of `version` and publishes it.
    @discardableResult
    func publish(
        _ version: String, _ files: [String: [UInt8]]? = nil, _ more: [String] = [],
        environment: [String: String] = [:], sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> Outcome {
        let source = try folder.writeTree(files ?? Self.client(version), to: "web-\(version)")
        let outcome = try publish(source, as: version, more, environment: environment)
        return outcome.succeeded("published", "\(version)", sourceLocation: sourceLocation)
    }

    /// Publishes a folder and returns the outcome, also on failure.
    func publish(
        _ source: String, as version: String, _ more: [String] = [], environment: [String: String] = [:]
    ) throws -> Outcome {
        let shell = more.contains("--min-shell") ? [] : ["--min-shell", "1.0.0"]
        let key = more.contains("--key") ? [] : ["--key", key]
        let place = more.contains("--feed") ? [] : ["--feed", feed]
        return try Clientctl.run(
            ["publish", source, "--version", version, "--json", "--level", "1"] + place + shell + key + more,
            environment: environment)
    }

    func arguments(
        _ command: String, _ manifest: String? = nil, shell: String = "1.5.0", _ more: [String] = []
    ) -> [String] {
        let trusting = more.contains("--trust") ? [] : ["--trust", trust]
        return [
            command, "--manifest", manifest ?? self.manifest, "--store", store, "--shell-version", shell, "--json",
        ] + trusting + more
    }

    func install(_ manifest: String? = nil, shell: String = "1.5.0", _ more: [String] = []) throws -> Outcome {
        try Clientctl.run(arguments("install", manifest, shell: shell, more))
    }

    func check(_ manifest: String? = nil, shell: String = "1.5.0", _ more: [String] = []) throws -> Outcome {
        try Clientctl.run(arguments("check", manifest, shell: shell, more))
    }

    func list() throws -> Outcome { try Clientctl.run(["list", "--store", store, "--json"]) }

    /// Returns a snapshot of the whole store.
    func stored() throws -> TreeSnapshot { try TreeSnapshot(of: store) }

    /// Returns the files of an installed version.
    func installed(_ version: String) throws -> [String: [UInt8]] {
        try TreeSnapshot(of: "\(store)/clients/v\(version)").files
    }

    /// Returns the members of a JSON file.
    func object(_ path: String) throws -> JSONObject {
        let value = try JSONScanner.parse(try contents(ofFile: path), maximumBytes: 1 << 20)
        return try #require(value.objectValue)
    }

    /// Runs `body` and expects an unchanged store, except for the record of versions that failed to arrive.
    func leavingStoreAlone(
        _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> Void
    ) throws {
        let before = try stored().withoutWanted
        try body()
        let changes = try stored().withoutWanted.changes(since: before)
        #expect(changes == [], comment, sourceLocation: sourceLocation)
    }
}
