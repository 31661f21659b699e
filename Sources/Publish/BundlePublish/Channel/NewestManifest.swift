package import BundleFormats
package import BundleValues

/// The change of the feed's `manifest.json` by a channel edit. Devices without channels follow this file.
package enum NewestChange: Sendable, Equatable {
    case untouched
    /// The manifest offers this version from now on.
    case offers(SemanticVersion)
    /// The manifest is removed: it offered this version, which is recalled, and no other release is for every device.
    case removed(SemanticVersion)
}

/// Decides which release `manifest.json` offers. It never offers a recalled release.
enum NewestRule: Equatable {
    /// The manifest stays: it offers a higher release that was published outside the channel, or there is no other
    /// release for every device.
    case stays
    case offers(SemanticVersion)
    /// No release is left to offer.
    case removed

    /// Decides about a manifest that offers `present`. `newest` is the channel's newest release for every device.
    /// `isFollowing` is whether the channel lists `present`, or listed it before its last change.
    static func judge(
        _ present: SemanticVersion?, newest: SemanticVersion?, isFollowing: Bool, isRecalled: Bool
    ) -> NewestRule {
        guard let newest else { return isRecalled ? .removed : .stays }
        guard let present, present > newest, !isFollowing, !isRecalled else { return .offers(newest) }
        return .stays
    }
}

/// The manifest for devices without channels: the newest release of the default channel that is for every device.
/// These devices have no rollouts, so they receive a release last.
enum NewestManifest {
    /// The next manifest, and the file that it replaces.
    struct Replacement {
        /// The next manifest; nil to remove the file.
        let bytes: [UInt8]?
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
    /// `before` is the previous file of the channel. A channel other than the default one only ends the offer of a
    /// release that it recalls.
    static func change(
        for document: ChannelDocument, after before: ChannelDocument?, in location: any FeedLocation, at time: Timestamp
    ) throws -> (change: NewestChange, next: Replacement?) {
        let isStandard = document.channel == ChannelFileName.standard
        if !isStandard, document.recalled.isEmpty { return (.untouched, nil) }
        let found = try ReleaseFeed.newestRecord(in: location)
        let present = found?.manifest.claims.version
        // A recall is possible even if another channel cannot be read.
        let standard = isStandard ? document : try? FeedRecalls(in: location).document(of: ChannelFileName.standard)
        let known = [standard, document].compactMap(\.self)
        let isRecalled = present.map { FeedRecalls.recall(of: $0, in: known) != nil } ?? false
        if !isStandard, !isRecalled { return (.untouched, nil) }
        let newest = standard.flatMap { release(of: $0, at: time) }
        let isFollowing = [document, before].contains { $0?.releases.contains { $0.version == present } == true }
        switch (
            NewestRule.judge(present, newest: newest?.version, isFollowing: isFollowing, isRecalled: isRecalled), newest
        ) {
        case (.offers(let version), let newest?):
            let bytes = manifest(of: newest)
            if found?.record.bytes == bytes { return (.untouched, nil) }
            return (.offers(version), Replacement(bytes: bytes, present: found?.record))
        case (.removed, _):
            guard let present else { return (.untouched, nil) }
            return (.removed(present), Replacement(bytes: nil, present: found?.record))
        case (.stays, _), (.offers, nil): return (.untouched, nil)
        }
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

/// Replaces the release that `manifest.json` offers, for devices without channels.
package struct ManifestOffer: Sendable {
    /// The version that it offers now.
    package let version: SemanticVersion
    /// The version that it offered before; nil if there was no manifest.
    package let previous: SemanticVersion?
    /// The writes of a dry run; nil otherwise.
    package let writes: [FeedWrite]?

    /// Offers `version` in `manifest.json`. Throws if the feed does not have it, if a channel recalls it, or if the
    /// default channel decides what the manifest offers.
    package init(
        _ version: SemanticVersion, in feed: any FeedLocation, clock: Timestamp, wait: FeedWait, isDryRun: Bool
    ) throws {
        self.version = version
        try feed.address.requireExists()
        let dryRun = isDryRun ? DryRunLocation(feed) : nil
        let feed: any FeedLocation = dryRun ?? feed
        previous = try feed.change(wait, channels: [], draft: { nil as Void? }) { _ in
            let present = try ReleaseFeed.newestRecord(in: feed)
            let previous = present?.manifest.claims.version
            if previous != version {
                let manifest = try Self.manifest(version, insteadOf: previous, in: feed, clock: clock)
                try ReleaseFeed.setNewest(manifest, in: feed, after: present?.record)
            }
            return previous
        }
        writes = dryRun?.writes
    }

    private static func manifest(
        _ version: SemanticVersion, insteadOf present: SemanticVersion?, in feed: any FeedLocation, clock: Timestamp
    ) throws -> [UInt8] {
        let channel = try ChannelWriter.record(of: ChannelFileName.standard, in: feed).map {
            try ChannelFormat.document(in: $0.bytes)
        }
        if let channel, let present, NewestManifest.release(of: channel, at: clock)?.version == present {
            throw refusal(
                of: version,
                "Channel \(channel.channel) offers \(present) to every device, and manifest.json follows it. Pause, withdraw or "
                    + "recall \(present) there, for example with `clientctl release pause`.")
        }
        let isHigher = present.map { version > $0 } ?? true
        if let channel, isHigher, channel.releases.contains(where: { $0.version == version }) {
            throw refusal(
                of: version,
                "Channel \(channel.channel) decides which devices get \(version), and manifest.json would offer it to every "
                    + "device. Use `clientctl release rollout` instead.")
        }
        let versions = try ReleaseFeed.versions(in: feed).filter { channel?.recalls($0) != true }
        guard versions.contains(version), let manifest = try ReleaseFeed.published(version, in: feed) else {
            let known = versions.sorted(by: >).map(\.description).joined(separator: ", ")
            throw refusal(
                of: version,
                "The feed has no release \(version) that is not recalled. It has \(known.isEmpty ? "none" : known).")
        }
        try FeedTrust(in: feed, clock: clock)?.require(manifest)
        return NewestManifest.manifest(of: manifest)
    }

    private static func refusal(of version: SemanticVersion, _ message: String) -> UpdateFailure {
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
