import BundleValues
import BundleCore
import BundleTesting
import Glibc
import Testing

/// A publisher with separate root, release and channel keys, a channel, and devices with their own IDs.
final class ChannelSite {
    static let appId = "com.example.kiosk"

    let folder: TemporaryFolder

    var feed: String { folder.file("feed") }
    var trust: String { folder.file("trust.json") }
    /// The trust root that devices were given: the first version, even after `trust` changes.
    var pinned: String { folder.file("pinned.json") }

    /// The files that all sites start from. Creating the keys is slow, so it happens once.
    private static let keys = Result { try ChannelSite(makingRoot: false).made() }
    private static let root = Result { try ChannelSite(makingRoot: true).made() }

    private func made() throws -> [String: [UInt8]] {
        try withExtendedLifetime(folder) { try TreeSnapshot(of: folder.path).files }
    }

    /// Creates a site with the keys and, by default, a 2-of-3 trust root that is published in the feed.
    init(withRoot: Bool = true) throws {
        folder = try TemporaryFolder()
        try folder.writeTree(try (withRoot ? Self.root : Self.keys).get(), to: ".")
    }

    private init(makingRoot withRoot: Bool) throws {
        folder = try TemporaryFolder()
        for name in ["root1", "root2", "root3", "release", "channel", "new"] {
            try Clientctl.run(["keys", "generate", "--out", folder.file(name), "--json"]).succeeded()
        }
        guard withRoot else { return }
        try initRoot().succeeded("created")
        try publishRoot().succeeded("published")
        try Clientctl.stock(["cp", trust, pinned])
    }

    func key(_ name: String) -> String { folder.file("\(name).key.pem") }
    func pub(_ name: String) -> String { folder.file("\(name).pub.pem") }

    func id(_ name: String) throws -> String {
        try #require(try Clientctl.run(["keys", "show", pub(name), "--json"]).string("keyId"))
    }

    // MARK: The trust root

    func initRoot(_ more: [String] = [], environment: [String: String] = [:]) throws -> Outcome {
        let roots = ["root1", "root2", "root3"].flatMap { ["--root-key", pub($0)] }
        return try Clientctl.run(
            ["trust", "init", "--out", trust, "--app-id", Self.appId, "--root-threshold", "2"] + roots
                + ["--release-key", pub("release"), "--channel-key", pub("channel")]
                + ["--sign-key", key("root1"), "--sign-key", key("root2"), "--json"] + more,
            environment: environment)
    }

    func publishRoot() throws -> Outcome { try Clientctl.run(["trust", "publish", trust, "--feed", feed, "--json"]) }

    func signRoot(_ names: String...) throws {
        for name in names {
            try Clientctl.run(["trust", "sign", trust, "--key", key(name), "--json"]).succeeded("signed")
        }
    }

    // MARK: Releases

    @discardableResult
    func publish(
        _ version: String, _ more: [String] = [], channel: String = "stable", key: String = "release",
        channelKey: String = "channel", environment: [String: String] = [:]
    ) throws -> Outcome {
        let source = try folder.writeTree(Site.client(version), to: "web-\(version)")
        let isMade = access("\(feed)/channels/\(channel).json", F_OK) == 0
        return try Clientctl.run(
            [
                "publish", source, "--version", version, "--feed", feed, "--key", self.key(key), "--min-shell", "1.0.0",
                "--app-id", Self.appId, "--level", "1", "--channel", channel, "--channel-key", self.key(channelKey),
                "--json",
            ] + (isMade || more.contains("--create") ? [] : ["--create"]) + more, environment: environment)
    }

    @discardableResult
    func release(_ arguments: String..., channel: String = "stable", key: String = "channel") throws -> Outcome {
        try Clientctl.run(
            ["release"] + arguments
                + ["--feed", feed, "--channel", channel, "--channel-key", self.key(key), "--json"])
    }

    @discardableResult
    func channel(_ arguments: String..., channel: String = "stable", key: String = "channel") throws -> Outcome {
        try Clientctl.run(
            ["channel"] + arguments
                + ["--feed", feed, "--channel", channel, "--channel-key", self.key(key), "--json"])
    }

    func list(_ channel: String = "stable") throws -> Outcome {
        try Clientctl.run(["channel", "list", "--feed", feed, "--channel", channel, "--json"])
    }

    func sequence(_ channel: String = "stable") throws -> Int? { try list(channel)["sequence"]?.integerValue }

    // MARK: Devices

    func install(
        _ device: String, _ more: [String] = [], channel: String = "stable", trust: String? = nil
    ) throws -> Outcome {
        try Clientctl.run(
            [
                "install", "--channel", "\(feed)/channels/\(channel).json", "--trust", trust ?? pinned, "--store",
                folder.file("store-\(device)"), "--shell-version", "1.5.0", "--app-id", Self.appId, "--device-id",
                device,
                "--json",
            ] + more)
    }

    /// Returns the version that the device would show.
    func runs(_ device: String) throws -> String? {
        let store = folder.file("store-\(device)")
        return try Clientctl.run(["launch", "--store", store, "--shell-version", "1.5.0", "--json"]).succeeded().string(
            "version")
    }
}
