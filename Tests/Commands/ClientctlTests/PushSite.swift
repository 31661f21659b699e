import BundleValues
import BundleCore
import BundleTesting
import Glibc
import MeteorTesting
import Testing

/// One Meteor server and one device in a folder, beside a publisher of archives.
final class PushSite {
    let site: Site
    let fixtures: CordovaFixtures
    let server: MeteorServer

    var folder: TemporaryFolder { site.folder }
    var store: String { site.store }
    var seed: String { fixtures.seed }

    /// Serves a version of the Cordova suite's fixtures whose seed the device has.
    init(serving version: CordovaVersion = .version1, talksDDP: Bool = false) throws {
        site = try Site()
        fixtures = try CordovaFixtures(in: site.folder.file("fixtures"))
        server = try MeteorServer([fixtures.versions], talksDDP: talksDDP)
        try serve(version)
    }

    /// Serves a fixture from the next request on.
    func serve(_ version: CordovaVersion) throws { try server.serve(version: version.rawValue) }

    /// Serves a changed fixture from the next request on.
    func serve(
        _ version: String, like other: CordovaVersion = .version2,
        _ change: (inout MeteorBundleBuilder) -> Void = { _ in }
    ) throws {
        let builder = CordovaBundles.bundle(other).with { builder in
            builder.version = .stated(version)
            change(&builder)
        }
        let place = folder.file("served/\(version)")
        try builder.build().writeServerLayout(to: place)
        server.add(version, folder: place)
        try server.serve(version: version)
    }

    // MARK: The program

    func run(_ command: String, _ more: [String] = []) throws -> Outcome {
        try Clientctl.run([command, "--store", store, "--json"] + more)
    }

    /// Returns the flags of `install` and `check` for the Meteor server.
    func pushing(_ more: [String] = []) -> [String] {
        let seed = more.contains("--seed") ? [] : ["--seed", seed]
        return ["--meteor", server.rootURL, "--shell-version", "1.5.0"] + seed + more
    }

    /// Returns these flags and those for the feed of archives.
    func both(_ more: [String] = []) -> [String] {
        pushing(["--manifest", site.manifest, "--trust", site.trust] + more)
    }

    func install(_ more: [String] = []) throws -> Outcome { try run("install", pushing(more)) }

    func check(_ more: [String] = []) throws -> Outcome { try run("check", pushing(more)) }

    func launch(_ more: [String] = []) throws -> Outcome {
        let seed = more.contains("--seed") ? [] : ["--seed", seed]
        return try run("launch", ["--shell-version", "1.5.0"] + seed + more)
    }

    /// Returns the flags of a verdict for `launched`, with `name` as its version if given.
    func verdict(_ launched: Outcome, as name: String? = nil) -> [String] {
        ["--version", name ?? launched.string("version") ?? "", "--token", launched.string("token") ?? ""]
    }

    /// Launches and confirms. Returns the launched version.
    @discardableResult
    func launchAndConfirm(_ more: [String] = []) throws -> String? {
        let launched = try launch(more).succeeded()
        try run("confirm", verdict(launched)).succeeded("confirmed")
        return launched.string("version")
    }

    /// Launches and reports a failure. Returns the launched version.
    @discardableResult
    func launchAndFail(_ more: [String] = []) throws -> String? {
        let launched = try launch(more).succeeded()
        try run("fail", verdict(launched)).succeeded("failed")
        return launched.string("version")
    }

    // MARK: State

    /// Returns the client names that `list` prints.
    func names() throws -> [String] { try run("list").succeeded().strings("versions") ?? [] }

    /// Returns the next client that `status` prints.
    func next() throws -> String? { try run("status").succeeded().string("next") }

    /// Returns the state and the reason of a client from `status`.
    func status(of name: String) throws -> (state: String, reason: String) {
        let rows = try run("status").succeeded()["clients"]?.arrayValue?.compactMap(\.objectValue) ?? []
        let row = try #require(rows.first { $0["name"]?.stringValue == name }, "\(name) is not there")
        return (row["state"]?.stringValue ?? "", row["reason"]?.stringValue ?? "")
    }

    /// Returns the files of an installed bundle.
    func installed(_ version: String) throws -> [String: [UInt8]] {
        try TreeSnapshot(of: "\(store)/meteor/\(version)").files
    }

    /// The requests since the last `serve`, by path without the prefix, sorted.
    var requests: [String] { server.requests.map { String($0.path.dropFirst("/__cordova".count)) }.sorted() }

    /// Returns the total size of the response bodies for these paths.
    func bytes(of paths: [String], in version: CordovaVersion) throws -> Int {
        try paths.reduce(0) { sum, path in
            let file = path == "/" ? "/index.html" : path
            return sum + (try contents(ofFile: fixtures.folder(of: version) + file).count)
        }
    }
}
