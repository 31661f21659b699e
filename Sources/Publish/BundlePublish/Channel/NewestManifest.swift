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

    /// The release of `document` at `time`; nil where the document is that of another channel, or has none for everybody.
    static func release(of document: ChannelDocument, at time: Timestamp) -> ChannelDocument.Release? {
        guard document.channel == ChannelFileName.standard else { return nil }
        return document.releases.filter { release in
            release.share(at: time) == ChannelDocument.Release.allDevices && !release.isPaused
                && !document.recalls(release.version)
        }.max { $0.version < $1.version }
    }

    /// What becomes of the manifest in `place` with `document`, what it is now, and its bytes where they change. One that was published beside the
    /// channel stays where it is higher.
    static func step(
        _ document: ChannelDocument, in place: any FeedPlace, at time: Timestamp
    ) throws -> (change: NewestChange, step: Step?) {
        guard document.channel == ChannelFileName.standard else { return (.untouched, nil) }
        let found = try ReleaseFeed.newestRecord(in: place)
        let present = found?.manifest.claims.version
        let isItsOwn = document.releases.contains { $0.version == present }
        guard let newest = release(of: document, at: time), isItsOwn || present.map({ $0 <= newest.version }) ?? true
        else {
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

/// Takes a release back from the devices that follow `manifest.json` and have not taken it yet.
package struct ReleaseWithdrawal: Sendable {
    /// The version that `manifest.json` offered.
    package let version: SemanticVersion
    /// The one that it offers in its place.
    package let offered: SemanticVersion
    /// What a dry run would write; nil otherwise.
    package let writes: [FeedWrite]?

    /// Makes the `manifest.json` of `feed` offer `target` in place of `version`; nil for the newest release below it that is not recalled.
    package init(
        _ version: SemanticVersion, to target: SemanticVersion?, in feed: any FeedPlace, clock: Timestamp,
        wait: FeedWait,
        isDryRun: Bool
    ) throws {
        self.version = version
        try feed.requireThere()
        let rehearsal = isDryRun ? RehearsalPlace(feed) : nil
        let feed: any FeedPlace = rehearsal ?? feed
        offered = try feed.change(wait, channels: [], draft: { nil as Void? }) { _ in
            let (offered, step) = try Self.step(version, to: target, in: feed, clock: clock)
            try ReleaseFeed.setNewest(step.bytes, in: feed, after: step.present)
            return offered
        }
        writes = rehearsal?.writes
    }

    private static func step(
        _ version: SemanticVersion, to target: SemanticVersion?, in feed: any FeedPlace, clock: Timestamp
    ) throws -> (SemanticVersion, NewestManifest.Step) {
        let present = try ReleaseFeed.newestRecord(in: feed)
        guard let present, present.manifest.claims.version == version else {
            let offered = present?.manifest.claims.version.description ?? "nothing"
            throw refusal(
                version, "The feed's manifest.json offers \(offered), not \(version): there is nothing to unpublish.")
        }
        let channel = try ChannelDesk.record(of: ChannelFileName.standard, in: feed).map {
            try ChannelFormat.parse(ChannelFormat.envelope(parsing: $0.bytes)).claims
        }
        if let channel, NewestManifest.release(of: channel, at: clock)?.version == version {
            throw refusal(
                version,
                "Channel \(channel.channel) offers \(version) to everybody, and manifest.json follows it: `clientctl release pause`, "
                    + "`remove` or `revoke` it there.")
        }
        let lower = try ReleaseFeed.versions(in: feed).filter { $0 < version && channel?.recalls($0) != true }
        guard let offered = target ?? lower.max(), lower.contains(offered) else {
            throw refusal(
                version,
                target.map { "\($0) is no release of the feed below \(version), or it is recalled." }
                    ?? "The feed has no release below \(version) that is not recalled: publish one above it.")
        }
        guard let manifest = try ReleaseFeed.published(offered, in: feed) else {
            throw refusal(offered, "The feed has no release \(offered).")
        }
        try FeedTrust(in: feed, clock: clock)?.require(manifest)
        return (offered, NewestManifest.Step(bytes: NewestManifest.manifest(of: manifest), present: present.record))
    }

    private static func refusal(_ version: SemanticVersion, _ message: String) -> UpdateFailure {
        UpdateFailure(.configInvalid, subject: version.description, message)
    }
}

extension NewestManifest {
    /// The manifest of a release's own folder as `manifest.json` has it.
    static func manifest(of release: UnverifiedManifest) -> [UInt8] {
        var object = release.document.objectValue ?? [:]
        let url = release.claims.url
        if !url.contains("/") {
            object["url"] = .string("\(ReleaseFeed.releasesName)/\(release.claims.version.folderName)/\(url)")
        }
        return JSONWriter.bytes(of: .object(object), layout: .pretty)
    }
}
