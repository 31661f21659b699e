import BundleFormats
import BundleArchive
import BundleValues
import BundleDisk
import BundleSigning

extension ReleaseBuilder {
    /// Publishing the same release again changes nothing, except that it completes a feed whose publisher stopped
    /// before its last step.
    func confirm(
        _ published: UnverifiedManifest, tree: CanonicalTree, team: Team, channel: ChannelPlan?
    ) throws -> ReleaseReport {
        let claims = published.claims
        if let difference = difference(claims, content: try tree.digest()) {
            throw UpdateFailure(
                .versionExists, subject: options.version.description,
                "Version \(options.version) was published before with \(difference). "
                    + "Choose a higher version: a published release never changes.")
        }
        try requireIntact(published, by: team.all)
        if channel != nil || options.trust != nil {
            try requireTrusted(published)
        }
        let path = "releases/\(options.version.folderName)/\(claims.url)"
        return try change(channel, draft: { try $0.prepare(published, at: path) }) { drafted in
            let publication = publication(channel)
            var isCompleted = false
            if publication == nil, try wouldBeNewest(), try !isNewest() {
                var document = published.document.objectValue ?? [:]
                document["url"] = .string(path)
                isCompleted = try makeNewest(JSONWriter.bytes(of: .object(document), layout: .pretty))
            }
            try feed.sync(ReleaseFeed.releasesName)
            let prepared = try drafted ?? publication?.prepare(published, at: path)
            let report = try prepared.flatMap { try publication?.put($0) }
            if let report, report.outcome != .unchanged { isCompleted = true }
            return try summary(
                isCompleted ? .completed : .unchanged, of: claims, tree: tree, isNewest: isNewest(), channel: report,
                rollout: channel?.rollout)
        }
    }

    /// Throws if a removed release of this version had other content, because devices that have it would keep it.
    func requireSameContent(_ tree: CanonicalTree) throws {
        guard let retired = try RetiredRelease.manifest(of: options.version, in: feed)?.claims,
            let difference = difference(retired, content: try tree.digest())
        else { return }
        throw UpdateFailure(
            .versionExists, subject: options.version.description,
            "Version \(options.version) was published before with \(difference), and has been removed; devices that have it would keep it. "
                + "Choose a higher version: a published release never changes.")
    }

    /// Throws if a device with these keys could not install the published release.
    private func requireIntact(_ published: UnverifiedManifest, by signers: [Signer]) throws {
        let claims = published.claims
        let version = claims.version
        guard (try? ManifestVerifier.verify(published, trusted: signers.trusted)) != nil else {
            throw UpdateFailure(
                .versionExists, subject: version.description,
                "Version \(version) was published before with other keys. Use those, or choose a higher version.")
        }
        guard try ReleaseFeed.hasArchive(of: claims, in: feed) else {
            throw UpdateFailure(
                .digestMismatch, subject: claims.url,
                "The archive of \(version) in the feed is missing or is not the signed one. Restore it, or "
                    + "remove releases/\(version.folderName) and publish again.")
        }
    }

    private func difference(_ published: Manifest, content: SHA256Digest) -> String? {
        if published.contentSha256 != content { return "different content" }
        if published.appId != options.appId { return "another application" }
        if published.shells != options.shells { return "another range of shells" }
        return nil
    }

    func summary(
        _ outcome: ReleaseReport.Outcome, of manifest: Manifest, tree: CanonicalTree, isNewest: Bool,
        channel: ChannelReport?, rollout: Int? = nil
    ) throws -> ReleaseReport {
        let offered = try ReleaseFeed.newest(in: feed)?.claims
        var report = ReleaseReport(
            outcome: options.isDryRun && outcome != .unchanged ? .dryRun : outcome, manifest: manifest,
            isNewest: isNewest, offered: isNewest ? manifest.version : offered?.version,
            largest: Array(tree.entries.sorted { $0.size > $1.size }.prefix(5)),
            raisedLimits: raisedLimits(manifest, tree: tree), channel: channel, writes: dryRun?.writes)
        report.warnings =
            try keptWarnings(manifest) + rolloutWarning(manifest.version, in: channel, asked: rollout)
            + prereleaseWarning(manifest.version, isNewest: isNewest, in: channel)
        if channel == nil, let offered, offered.version > manifest.version {
            report.warnings.append(
                "manifest.json offers \(offered.version), which is higher, so no device installs \(manifest.version). Publish a higher "
                    + "version.")
        }
        return report
    }

    /// Warns about options that have no effect on a release that was published before.
    private func keptWarnings(_ published: Manifest) throws -> [String] {
        var kept: [String] = []
        let notes = try options.notes.map { try SHA256Digest.of(Array($0.utf8)) }
        if published.notesSha256 != notes { kept.append("its notes") }
        if published.requiredEndpoints != options.requiredEndpoints { kept.append("its required endpoints") }
        if !published.url.hasSuffix("." + options.format.rawValue) { kept.append("its format") }
        let phone = "\(ReleaseFeed.releasesName)/\(published.version.folderName)/\(PhoneBundleFormat.fileName)"
        if options.isForPhones, try feed.read(phone, maximumBytes: PhoneBundleFormat.maximumBytes) == nil {
            kept.append("that it has no bundle for phones")
        }
        if kept.isEmpty { return [] }
        return [
            "\(published.version) was published before and keeps \(kept.joined(separator: " and ")): a published release never "
                + "changes. Publish a higher version."
        ]
    }

    /// Warns if every device of a feed, or of the standard channel, gets a pre-release.
    private func prereleaseWarning(
        _ version: SemanticVersion, isNewest: Bool, in channel: ChannelReport?
    ) -> [String] {
        guard version.isPrerelease else { return [] }
        if let document = channel?.document {
            let share = document.releases.first { $0.version == version }?.share(at: .now)
            guard document.channel == ChannelFileName.standard, share == ChannelDocument.Release.allDevices else {
                return []
            }
        } else if !isNewest {
            return []
        }
        return [
            "\(version) is a pre-release, and every device of \(channel == nil ? "this feed" : "channel \(ChannelFileName.standard)") gets it. "
                + "For test devices only, publish it to a channel of their own, such as --channel beta."
        ]
    }

    /// Warns if the channel had the release before, for another percentage than the publisher asked for.
    private func rolloutWarning(
        _ version: SemanticVersion, in channel: ChannelReport?, asked permille: Int?
    ) -> [String] {
        guard let permille, let document = channel?.document,
            let release = document.releases.first(where: { $0.version == version }),
            release.ramp != nil || release.rollout != permille
        else { return [] }
        let percentage = RolloutPercentage(permille: permille)
        return [
            "--rollout \(percentage) was ignored, because channel \(document.channel) has \(version) already, for "
                + "\(ChannelDocument.audience(of: release)). Use `clientctl release rollout \(percentage) --version \(version)`."
        ]
    }

    private func raisedLimits(_ manifest: Manifest, tree: CanonicalTree) -> [String] {
        let usual = ArchiveLimits()
        var flags: [String] = []
        if manifest.size ?? 0 > usual.archiveBytes { flags.append("--max-archive-size") }
        if tree.totalBytes > usual.installedBytes { flags.append("--max-installed-size") }
        if tree.entries.contains(where: { $0.size > usual.fileBytes }) { flags.append("--max-file-size") }
        if tree.entries.count > usual.entries { flags.append("--max-files") }
        return flags
    }

    // MARK: manifest.json

    func wouldBeNewest() throws -> Bool {
        guard let newest = try ReleaseFeed.newest(in: feed) else { return true }
        return newest.claims.version <= options.version
    }

    func isNewest() throws -> Bool { try ReleaseFeed.newest(in: feed)?.claims.version == options.version }

    /// Offers `manifest` unless devices see a newer release. Returns whether it changed the offer.
    @discardableResult
    func makeNewest(_ manifest: [UInt8]) throws -> Bool {
        let present = try ReleaseFeed.newestRecord(in: feed)
        if let present, present.manifest.claims.version > options.version { return false }
        let isBehind = present?.manifest.claims.version != options.version
        try ReleaseFeed.setNewest(manifest, in: feed, after: present?.record)
        return isBehind
    }
}
