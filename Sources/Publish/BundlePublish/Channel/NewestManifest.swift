import BundleCore
package import ArchiveSource
package import BundleValues

/// How a channel edit changes the feed's `manifest.json`, which devices without channels follow.
package enum NewestChange: Sendable, Equatable {
    case untouched
    /// The manifest offers this version from now on.
    case offers(SemanticVersion)
    /// The manifest still offers this version, which the channel recalls, because no other release is for every
    /// device.
    case keepsRecalled(SemanticVersion)
}

/// The manifest for devices without channels: the newest release of the default channel that is for every device.
/// These devices have no rollouts, so they receive a release last.
enum NewestManifest {
    /// The next manifest, and the file that it replaces.
    struct Replacement {
        let bytes: [UInt8]
        let present: FeedRecord?
    }

    /// Returns the newest release of `document` for every device at `time`; nil if there is none, or if `document` is
    /// another channel's.
    static func release(of document: ChannelDocument, at time: Timestamp) -> ChannelDocument.Release? {
        guard document.channel == ChannelFileName.standard else { return nil }
        return document.releases.filter { release in
            release.share(at: time) == ChannelDocument.Release.allDevices && !release.isPaused
                && !document.recalls(release.version)
        }.max { $0.version < $1.version }
    }

    /// Returns the change of the manifest in `location` that `document` causes, and the next manifest if it changes.
    /// A higher release that was published outside the channel stays.
    static func change(
        for document: ChannelDocument, in location: any FeedLocation, at time: Timestamp
    ) throws -> (change: NewestChange, next: Replacement?) {
        guard document.channel == ChannelFileName.standard else { return (.untouched, nil) }
        let found = try ReleaseFeed.newestRecord(in: location)
        let present = found?.manifest.claims.version
        let isItsOwn = document.releases.contains { $0.version == present }
        guard let newest = release(of: document, at: time), isItsOwn || present.map({ $0 <= newest.version }) ?? true
        else {
            let recalled = present.flatMap { document.recalls($0) ? $0 : nil }
            return (recalled.map(NewestChange.keepsRecalled) ?? .untouched, nil)
        }
        let bytes = manifest(of: newest)
        if found?.record.bytes == bytes { return (.untouched, nil) }
        return (.offers(newest.version), Replacement(bytes: bytes, present: found?.record))
    }

    /// Returns the manifest of `release` with a URL relative to the feed's root.
    static func manifest(of release: ChannelDocument.Release) -> [UInt8] {
        var object = release.manifest.document.objectValue ?? [:]
        let url = release.manifest.claims.url
        object["url"] = .string(url.hasPrefix("../") ? String(url.dropFirst(3)) : url)
        return JSONWriter.bytes(of: .object(object), layout: .pretty)
    }
}

extension ChannelDocument {
    /// Returns whether devices may not run `version`.
    package func recalls(_ version: SemanticVersion) -> Bool {
        recalled.contains { $0.version == version } || minimumVersion.map { version < $0 } ?? false
    }
}

/// Replaces the release that `manifest.json` offers with a lower one, for devices that have not installed it yet.
package struct ReleaseWithdrawal: Sendable {
    package let version: SemanticVersion
    /// The version that it offers now.
    package let offered: SemanticVersion
    /// The writes of a dry run; nil otherwise.
    package let writes: [FeedWrite]?

    /// Offers `target` instead of `version` in `manifest.json`; nil means the newest lower release that is not
    /// recalled.
    package init(
        _ version: SemanticVersion, to target: SemanticVersion?, in feed: any FeedLocation, clock: Timestamp,
        wait: FeedWait,
        isDryRun: Bool
    ) throws {
        self.version = version
        try feed.requireExists()
        let dryRun = isDryRun ? DryRunLocation(feed) : nil
        let feed: any FeedLocation = dryRun ?? feed
        offered = try feed.change(wait, channels: [], draft: { nil as Void? }) { _ in
            let (offered, next) = try Self.replacement(version, to: target, in: feed, clock: clock)
            try ReleaseFeed.setNewest(next.bytes, in: feed, after: next.present)
            return offered
        }
        writes = dryRun?.writes
    }

    private static func replacement(
        _ version: SemanticVersion, to target: SemanticVersion?, in feed: any FeedLocation, clock: Timestamp
    ) throws -> (SemanticVersion, NewestManifest.Replacement) {
        let present = try ReleaseFeed.newestRecord(in: feed)
        guard let present, present.manifest.claims.version == version else {
            let offered = present?.manifest.claims.version.description ?? "nothing"
            throw refusal(
                version, "The feed's manifest.json offers \(offered), not \(version), so there is nothing to unpublish."
            )
        }
        let channel = try ChannelWriter.record(of: ChannelFileName.standard, in: feed).map {
            try ChannelFormat.parse(ChannelFormat.envelope(parsing: $0.bytes)).claims
        }
        if let channel, NewestManifest.release(of: channel, at: clock)?.version == version {
            throw refusal(
                version,
                "Channel \(channel.channel) offers \(version) to every device, and manifest.json follows it. Pause, remove or "
                    + "revoke it there, for example with `clientctl release pause`.")
        }
        let lower = try ReleaseFeed.versions(in: feed).filter { $0 < version && channel?.recalls($0) != true }
        guard let offered = target ?? lower.max(), lower.contains(offered) else {
            throw refusal(
                version,
                target.map { "\($0) is not a release of the feed below \(version), or it is recalled." }
                    ?? "The feed has no release below \(version) that is not recalled: publish one above it.")
        }
        guard let manifest = try ReleaseFeed.published(offered, in: feed) else {
            throw refusal(offered, "The feed has no release \(offered).")
        }
        try FeedTrust(in: feed, clock: clock)?.require(manifest)
        return (
            offered, NewestManifest.Replacement(bytes: NewestManifest.manifest(of: manifest), present: present.record)
        )
    }

    private static func refusal(_ version: SemanticVersion, _ message: String) -> UpdateFailure {
        UpdateFailure(.configInvalid, subject: version.description, message)
    }
}

extension NewestManifest {
    /// Returns the manifest of a release's own folder with a URL relative to the feed's root.
    static func manifest(of release: UnverifiedManifest) -> [UInt8] {
        var object = release.document.objectValue ?? [:]
        let url = release.claims.url
        if !url.contains("/") {
            object["url"] = .string("\(ReleaseFeed.releasesName)/\(release.claims.version.folderName)/\(url)")
        }
        return JSONWriter.bytes(of: .object(object), layout: .pretty)
    }
}
