import ArchiveSource
import BundleCore
import BundleValues

/// The recalls of a feed's channels, as the check of every document that is written: none offers a release that a channel recalls.
///
/// A channel decides about the releases that it lists. Recalls by name of the other channels count for a release that it offers for the
/// first time, or again. A floor counts in its own channel.
struct FeedRecalls {
    private let location: any FeedLocation

    /// The recalls of the feed `place`, which are read when they are needed.
    init(in location: any FeedLocation) { self.location = location }

    /// Refuses a `manifest.json` that offers a recalled `version`. The standard channel decides about what it lists.
    func requireManifest(_ version: SemanticVersion) throws {
        if let standard = try document(of: ChannelFileName.standard) {
            try standard.requireAllowed(version)
            if standard.releases.contains(where: { $0.version == version }) { return }
        }
        try requireOthers(version, besides: ChannelFileName.standard, in: ReleaseFeed.manifestName)
    }

    /// Refuses a `document` that offers a version which the one `before` does not, and which another channel recalls. A recall that the
    /// document takes back by name is meant.
    func require(_ document: ChannelDocument, after before: ChannelDocument?) throws {
        for version in document.releases.map(\.version) where !document.recalls(version) {
            let wasOffered = before.map { $0.offers(version) } ?? false
            if wasOffered || document.reinstated.contains(where: { $0.version == version }) { continue }
            try requireOthers(version, besides: document.channel, in: "channel \(document.channel)")
        }
    }

    private func requireOthers(_ version: SemanticVersion, besides own: String, in target: String) throws {
        for channel in try ChannelWriter.channels(in: location) where channel != own {
            guard let recall = try document(of: channel)?.revoked.first(where: { $0.version == version }) else {
                continue
            }
            throw UpdateFailure(
                .versionBlocked, subject: version.description,
                "Version \(version) is recalled in channel \(channel)"
                    + (recall.reason.isEmpty ? "" : " (\(UntrustedName.display(recall.reason)))")
                    + ", so \(target) does not offer it: publish a higher one, or undo that recall with "
                    + "`clientctl release revoke --version \(version) --undo --channel \(channel)`.")
        }
    }

    private func document(of channel: String) throws -> ChannelDocument? {
        guard let record = try ChannelWriter.record(of: channel, in: location) else { return nil }
        do {
            return try ChannelFormat.parse(ChannelFormat.envelope(parsing: record.bytes)).claims
        } catch {
            let file = "\(location.address)/\(ChannelWriter.path(of: channel))"
            throw UpdateFailure(
                .manifestMalformed, subject: file,
                "\(file) cannot be read, so it is not known what it recalls: restore it with `clientctl release restore`. "
                    + UpdateFailure(error).message)
        }
    }
}

extension ChannelDocument {
    /// Whether devices may run `version` by this document.
    fileprivate func offers(_ version: SemanticVersion) -> Bool {
        releases.contains { $0.version == version } && !recalls(version)
    }
}
