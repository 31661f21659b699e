import BundleFormats
import BundleValues

/// The recalls of a feed's channels. No new channel file or manifest may offer a release that a channel recalls.
///
/// A channel decides about the releases that it lists. Recalls by name in other channels apply to a release that a
/// channel offers for the first time, or again. A minimum version applies to its own channel only.
struct FeedRecalls {
    private let location: any FeedLocation

    /// Uses the recalls of the feed at `location`, which are read when needed.
    init(in location: any FeedLocation) { self.location = location }

    /// Throws if a `manifest.json` with `version` would offer a recalled release. The standard channel decides about
    /// the releases that it lists.
    func requireManifest(_ version: SemanticVersion) throws {
        if let standard = try document(of: ChannelFileName.standard) {
            try standard.requireAllowed(version)
            if standard.releases.contains(where: { $0.version == version }) { return }
        }
        try requireOthers(version, besides: ChannelFileName.standard, in: ReleaseFeed.manifestName)
    }

    /// Throws if `document` offers a version that `before` does not offer and another channel recalls, unless
    /// `document` undoes the recall by name.
    func require(_ document: ChannelDocument, after before: ChannelDocument?) throws {
        for version in document.releases.map(\.version) where !document.recalls(version) {
            let wasOffered = before.map { $0.offers(version) } ?? false
            if wasOffered || document.reinstated.contains(where: { $0.version == version }) { continue }
            try requireOthers(version, besides: document.channel, in: "channel \(document.channel)")
        }
    }

    /// Returns the channel file in `documents` that recalls `version`, so that `manifest.json` cannot offer it; nil if
    /// there is none.
    static func recall(of version: SemanticVersion, in documents: [ChannelDocument]) -> ChannelDocument? {
        if let standard = documents.first(where: { $0.channel == ChannelFileName.standard }) {
            if standard.recalls(version) { return standard }
            if standard.releases.contains(where: { $0.version == version }) { return nil }
        }
        return documents.first { document in
            document.channel != ChannelFileName.standard && document.recalled.contains { $0.version == version }
        }
    }

    private func requireOthers(_ version: SemanticVersion, besides own: String, in target: String) throws {
        for channel in try ChannelWriter.channels(in: location) where channel != own {
            guard let recall = try document(of: channel)?.recalled.first(where: { $0.version == version }) else {
                continue
            }
            throw UpdateFailure(
                .versionBlocked, subject: version.description,
                "Version \(version) is recalled in channel \(channel)"
                    + (recall.reason.isEmpty ? "" : " (\(UntrustedName.display(recall.reason)))")
                    + ", so \(target) cannot offer it. Publish a higher version, or undo the recall with "
                    + "`clientctl release recall --version \(version) --undo --channel \(channel)`.")
        }
    }

    /// Returns the channel file of `channel`, unverified; nil if the feed has none.
    func document(of channel: String) throws -> ChannelDocument? {
        guard let record = try ChannelWriter.record(of: channel, in: location) else { return nil }
        do {
            return try ChannelFormat.document(in: record.bytes)
        } catch {
            let file = "\(location.address)/\(ChannelWriter.path(of: channel))"
            throw UpdateFailure(
                .manifestMalformed, subject: file,
                "\(file) cannot be read, so its recalls are unknown. Restore it with `clientctl channel restore`. "
                    + UpdateFailure(error).message)
        }
    }
}

extension ChannelDocument {
    /// Returns whether devices may run `version` by this channel file.
    fileprivate func offers(_ version: SemanticVersion) -> Bool {
        releases.contains { $0.version == version } && !recalls(version)
    }
}
