import BundleFormats
import BundleValues

/// The channel that a release is published to.
package struct ChannelPlan {
    let name: String
    let rollout: Int?
    var options: ChannelTerms
    /// Devices activate the release as soon as they have installed it.
    package var isUrgent = false

    /// Publishes to the channel `name`. `rollout` is in thousandths of all devices; nil means all of them.
    package init(_ name: String, rollout: Int?, terms options: ChannelTerms) {
        self.name = name
        self.rollout = rollout
        self.options = options
    }
}

/// Adds a release to a channel.
struct ChannelPublication {
    private let plan: ChannelPlan
    private let writer: ChannelWriter
    private let appId: String?

    /// Returns nil if `plan` is nil.
    init?(_ plan: ChannelPlan?, in location: any FeedLocation, appId: String?) {
        guard let plan else { return nil }
        self.plan = plan
        self.appId = appId
        writer = ChannelWriter(location: location, options: plan.options)
    }

    /// Throws, before any packing, if the channel cannot accept `version` or its file is not the expected one.
    func requireAcceptance(of version: SemanticVersion) throws {
        let present = try writer.base(of: plan.name, appId: appId).document
        try writer.requireChannel(plan.name, present: present)
        guard let document = present?.document else { return }
        if document.releases.contains(where: { $0.version == version }) { return }
        try document.requireAllowed(version)
    }

    /// Prepares the next channel file with `release`, whose archive is at `path` in the feed.
    func prepare(_ release: SignedRelease, at path: String) throws -> ChannelWriter.PreparedChannel {
        try prepare(try release.claims(url: Self.url(path)))
    }

    /// Prepares the next channel file with a release that was published before.
    func prepare(_ published: UnverifiedManifest, at path: String) throws -> ChannelWriter.PreparedChannel {
        var document = published.document.objectValue ?? [:]
        document["url"] = .string(Self.url(path))
        return try prepare(try ManifestFormat.parse(JSONWriter.bytes(of: .object(document))))
    }

    private func prepare(_ manifest: UnverifiedManifest) throws -> ChannelWriter.PreparedChannel {
        try writer.prepare(plan.name, creatingFor: appId, onto: writer.base(of: plan.name, appId: appId)) {
            try $0.addPruning(at: plan.options.issuedAt) {
                try $0.add(manifest, rollout: plan.rollout, isUrgent: plan.isUrgent)
            }
        }
    }

    func put(_ prepared: ChannelWriter.PreparedChannel) throws -> ChannelReport { try writer.put(prepared) }

    /// Returns a URL relative to the channel file, which is one folder below the feed.
    private static func url(_ path: String) -> String { "../\(path)" }
}
