import ArchiveSource
import BundleValues

/// The channel that a release is published to.
package struct ChannelPlan {
    let name: String
    let rollout: Int?
    let options: ChannelTerms
    /// Whether devices are to show it as soon as they have it.
    package var isUrgent = false

    /// Publishes to the channel `name`, for `rollout` of 1000 devices; nil for all of them.
    package init(_ name: String, rollout: Int?, _ options: ChannelTerms) {
        self.name = name
        self.rollout = rollout
        self.options = options
    }
}

/// A release's place in its channel.
struct ChannelSeat {
    private let plan: ChannelPlan
    private let desk: ChannelDesk
    private let appId: String?

    /// nil without a plan.
    init?(_ plan: ChannelPlan?, in place: any FeedPlace, appId: String?) {
        guard let plan else { return nil }
        self.plan = plan
        self.appId = appId
        desk = ChannelDesk(place: place, options: plan.options)
    }

    /// Refuses what could only fail after the packing: a document that somebody else changed, a version that it forbids.
    func requireOpen(to version: SemanticVersion) throws {
        let present = try desk.base(of: plan.name, appId: appId).document
        try desk.requirePlace(for: plan.name, present)
        guard let document = present?.document else { return }
        if document.releases.contains(where: { $0.version == version }) { return }
        try desk.requireNoCreation(of: plan.name, present)
        try document.requireAllowed(version)
    }

    /// The channel's next document with `release`, whose archive is at `path` in the feed.
    func prepare(_ release: SignedRelease, at path: String) throws -> ChannelDesk.Prepared {
        try prepare(try release.claims(url: Self.url(path)))
    }

    /// The same for a release that was published before.
    func prepare(_ published: UnverifiedManifest, at path: String) throws -> ChannelDesk.Prepared {
        var document = published.document.objectValue ?? [:]
        document["url"] = .string(Self.url(path))
        return try prepare(try ManifestFormat.parse(JSONWriter.bytes(of: .object(document))))
    }

    private func prepare(_ manifest: UnverifiedManifest) throws -> ChannelDesk.Prepared {
        try desk.prepare(plan.name, creatingFor: appId, onto: desk.base(of: plan.name, appId: appId)) {
            try $0.addPruning(at: plan.options.issuedAt) {
                try $0.add(manifest, rollout: plan.rollout, isUrgent: plan.isUrgent)
            }
        }
    }

    func put(_ prepared: ChannelDesk.Prepared) throws -> ChannelReport { try desk.put(prepared) }

    /// As the channel's document sees it, one folder below the feed.
    private static func url(_ path: String) -> String { "../\(path)" }
}
