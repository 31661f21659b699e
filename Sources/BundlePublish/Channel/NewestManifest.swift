import ArchiveChannel
import BundleCore
import BundleDisk

/// What devices of the flat manifest are offered: the newest release of the default channel that everybody may have. They know
/// no rollouts, so a release reaches them last.
enum NewestManifest {
    /// The release of `document`; nil where the document is that of another channel, or has none for everybody.
    static func release(of document: ChannelDocument) -> ChannelDocument.Release? {
        guard document.channel == ChannelFileName.standard else { return nil }
        return document.releases.filter { release in
            release.rollout == ChannelDocument.Release.everybody && !release.isPaused
                && !document.revoked.contains { $0.version == release.version }
                && document.minimumVersion.map { release.version >= $0 } ?? true
        }.max { $0.version < $1.version }
    }

    /// Its manifest as the feed's own folder sees it.
    static func manifest(of release: ChannelDocument.Release) -> [UInt8] {
        var object = release.manifest.document.objectValue ?? [:]
        let url = release.manifest.claims.url
        object["url"] = .string(url.hasPrefix("../") ? String(url.dropFirst(3)) : url)
        return JSONWriter.bytes(of: .object(object), layout: .pretty)
    }
}
