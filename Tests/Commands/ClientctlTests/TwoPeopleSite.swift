import BundleTesting
import BundleValues
import Testing

/// A site whose trust root requires the channel keys of two people, Alice and Bob, and names them.
struct TwoPeopleSite {
    static let labels = ["channel": "Alice, token 2", "new": "Bob <b>'s & token"]

    let site: ChannelSite

    init() throws {
        site = try ChannelSite(withRoot: false)
        try site.initRoot(["--channel-key", site.pub("new"), "--channel-threshold", "2"]).succeeded("created")
        // Devices were given the root without labels, and follow the chain.
        try Clientctl.stock(["cp", site.trust, site.pinned])
        try site.publishRoot().succeeded("published")
        for (name, label) in Self.labels {
            try Clientctl.run([
                "trust", "label", site.trust, "--public-key", site.pub(name), "--label", label, "--json",
            ]).succeeded("drafted")
        }
        try site.signRoot("root1", "root2")
        try site.publishRoot().succeeded("published")
        for version in ["1.0.0", "1.1.0"] {
            try site.publish(version, ["--channel-key", site.key("new")]).succeeded("published")
        }
    }

    /// Runs an edit of the channel with the key of one person.
    func edit(_ words: [String], as name: String, _ more: [String] = []) throws -> Outcome {
        try Clientctl.run(
            words + [
                "--feed", site.feed, "--channel", "stable", "--channel-key", site.key(name), "--trust", site.pinned,
                "--json",
            ] + more, environment: ["CLIENTCTL_PUBLISHER_STATE": site.folder.file("state-\(name)")])
    }

    func proposals() throws -> [JSONObject] {
        let outcome = try Clientctl.run([
            "release", "proposals", "--feed", site.feed, "--trust", site.pinned, "--json",
        ]).succeeded()
        return outcome["proposals"]?.arrayValue?.compactMap(\.objectValue) ?? []
    }
}
