import BundleCore
import ArchiveSource
package import BundleValues

/// What a channel's document makes of the feed's `manifest.json`, which devices without channels follow.
package enum NewestChange: Sendable, Equatable {
    /// It offers what it did.
    case untouched
    /// It offers this version from now on.
    case offers(SemanticVersion)
    /// It goes on offering this version, which the channel recalls: there is nothing else for everybody.
    case keepsRecalled(SemanticVersion)
}

/// What devices of the flat manifest are offered: the newest release of the default channel that everybody may have. They know
/// no rollouts, so a release reaches them last.
enum NewestManifest {
    /// What is to take the place of what.
    struct Step {
        let bytes: [UInt8]
        let present: FeedRecord?
    }

    /// The release of `document`; nil where the document is that of another channel, or has none for everybody.
    static func release(of document: ChannelDocument) -> ChannelDocument.Release? {
        guard document.channel == ChannelFileName.standard else { return nil }
        return document.releases.filter { release in
            release.rollout == ChannelDocument.Release.everybody && !release.isPaused
                && !document.recalls(release.version)
        }.max { $0.version < $1.version }
    }

    /// What becomes of the manifest in `place` with `document`, what it is now, and its bytes where they change. One that was published beside the
    /// channel stays where it is higher.
    static func step(
        _ document: ChannelDocument, in place: any FeedPlace
    ) throws -> (change: NewestChange, step: Step?) {
        guard document.channel == ChannelFileName.standard else { return (.untouched, nil) }
        let found = try ReleaseFeed.newestRecord(in: place)
        let present = found?.manifest.claims.version
        let isItsOwn = document.releases.contains { $0.version == present }
        guard let newest = release(of: document), isItsOwn || present.map({ $0 <= newest.version }) ?? true else {
            let recalled = present.flatMap { document.recalls($0) ? $0 : nil }
            return (recalled.map(NewestChange.keepsRecalled) ?? .untouched, nil)
        }
        let bytes = manifest(of: newest)
        if found?.record.bytes == bytes { return (.untouched, nil) }
        return (.offers(newest.version), Step(bytes: bytes, present: found?.record))
    }

    /// Its manifest as the feed's own folder sees it.
    static func manifest(of release: ChannelDocument.Release) -> [UInt8] {
        var object = release.manifest.document.objectValue ?? [:]
        let url = release.manifest.claims.url
        object["url"] = .string(url.hasPrefix("../") ? String(url.dropFirst(3)) : url)
        return JSONWriter.bytes(of: .object(object), layout: .pretty)
    }
}

extension ChannelDocument {
    /// Whether devices may not run `version`.
    func recalls(_ version: SemanticVersion) -> Bool {
        revoked.contains { $0.version == version } || minimumVersion.map { version < $0 } ?? false
    }
}
