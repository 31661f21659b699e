import ArchiveSource
import BundleArchive
package import BundleCore
import BundleValues
import BundleDisk
import BundleSigning
import Glibc

/// The publisher's line: list, pack, check as an installer would, sign, write the feed.
package struct ReleaseBuilder {
    private let options: ReleaseOptions
    private let feed: any FeedPlace
    /// What a dry run works on.
    private let rehearsal: RehearsalPlace?
    private let report: @Sendable (UpdateEvent) -> Void

    /// Publishes to `feed`; `report` hears about progress.
    package init(
        _ options: ReleaseOptions, feed: any FeedPlace, report: @escaping @Sendable (UpdateEvent) -> Void
    ) {
        self.options = options
        rehearsal = options.isDryRun ? RehearsalPlace(feed) : nil
        self.feed = rehearsal ?? feed
        self.report = report
    }

    /// Looks at the web folder `source` before anything is packed; refuses what may not be published.
    package func look(at source: String) throws -> FolderLook {
        try ForeignContent.refuse(in: source, feed: feed.folder, options)
        let look = try FolderLook(
            Directory.open(source), excluding: options.excluded, dropping: options.drops, allowed: options.allowed,
            budget: options.budget)
        try look.tree.requireInstallable(options.limits)
        try Self.requireBridge(look.tree.folder, source)
        try look.requireScripts(allowing: options.allowed, of: source)
        if let problem = options.format.problem(files: look.tree.entries.count, bytes: look.tree.totalBytes) {
            throw UpdateFailure(.archiveRejected, subject: "format: \(source)", "\(source) \(problem)")
        }
        try look.requireBudget(options.budget, of: source)
        return look
    }

    /// Into a page of two-byte letters the host puts no `WebAppLocalServer`, so it could never confirm its start.
    private static func requireBridge(_ folder: Directory, _ source: String) throws {
        let mark = try folder.file("index.html").head(2)
        guard mark == [0xFF, 0xFE] || mark == [0xFE, 0xFF] else { return }
        throw UpdateFailure(
            .archiveRejected, subject: "encoding: index.html",
            "Not published. \(source)/index.html is UTF-16, so it would get no WebAppLocalServer, and devices would roll it back: save it "
                + "as UTF-8.")
    }

    /// Publishes the folder of `look`, signed by each of `signers`, the first of them foremost; into a channel too where one is
    /// named.
    package func publish(_ look: FolderLook, signers: [Signer], to channel: ChannelPlan? = nil) throws -> ReleaseReport
    {
        let tree = look.tree
        guard let first = signers.first else {
            throw UpdateFailure(.configInvalid, subject: "key", "A release has at least one signer: give --key.")
        }
        let team = Team(first: first, others: Array(signers.dropFirst()))
        // Before the long part: a channel that cannot be changed would leave a release that nobody is offered.
        try seat(channel)?.requireOpen(to: options.version)
        if channel == nil { try requireNoStandardChannel() }
        try requireOpen(team)
        if let published = try ReleaseFeed.published(options.version, in: feed) {
            let report = try confirm(published, tree, team, channel)
            try keepMaps(look)
            return report
        }
        try requireSameContent(tree)
        let isNew = try feed.isNew
        let draft = try feed.draft(options.wait)
        let file = try draft.scratch.file(creating: archiveName)
        let release = try seal(tree, into: file, team, scratch: draft.scratch)
        try file.sync()
        let same = try sameContent(release.manifest)
        // Before devices have the release: a report of a crash needs its maps.
        try keepMaps(look)
        let deltas = try self.deltas(to: release, tree, in: draft.scratch)
        let list = try DeltaShelf(feed, signers: team.all, anchor: options.trust)
            .list(of: deltas, for: release.claims(url: archiveName))
        if let list { try draft.scratch.replaceFile(DeltaListFormat.fileName, with: list) }
        if let notes = options.notes {
            try draft.scratch.replaceFile(ReleaseNotes.fileName, with: Array(notes.utf8))
        }
        guard var report = try commit(release, draft, deltas, tree, team, channel) else {
            // Another process published this version while it was packed.
            guard let published = try ReleaseFeed.published(options.version, in: feed) else { throw vanished }
            return try confirm(published, tree, team, channel)
        }
        report.sameContent = same
        if isNew { report.warnings.insert(feed.isNewWarning, at: 0) }
        return report
    }

    /// Refuses a release that would move `manifest.json` past the standard channel, which it follows, or that a channel recalls.
    private func requireNoStandardChannel() throws {
        let standard = ChannelFileName.standard
        if try ChannelHistory.channels(in: feed).contains(standard) {
            throw UpdateFailure(
                .configInvalid, subject: "channel \(standard)",
                "The feed has the channel \(standard), whose newest release for every device manifest.json offers: add --channel "
                    + "\(standard), with --rollout for some devices only, or name another channel.")
        }
        try FeedRecalls(in: feed).requireManifest(options.version)
    }

    private func keepMaps(_ look: FolderLook) throws {
        if let folder = options.mapsFolder, !options.isDryRun { try look.keepMaps(in: folder, of: options.version) }
    }

    /// Makes the deltas that lead to it.
    private func deltas(
        to release: SignedRelease, _ tree: CanonicalTree, in folder: Directory
    ) throws -> [DeltaReport] {
        guard let terms = options.deltas else { return [] }
        return try DeltaDesk(feed: feed, terms: terms, limits: options.limits, report: report)
            .make(to: tree, of: release.manifest, into: folder)
    }

    /// Puts a sealed release into the feed, which is locked for no longer than that; nil where it has this version by now.
    private func commit(
        _ release: SignedRelease, _ draft: any ReleaseDraft, _ deltas: [DeltaReport], _ tree: CanonicalTree,
        _ team: Team, _ channel: ChannelPlan?
    ) throws -> ReleaseReport? {
        try change(channel, { try $0.prepare(release, at: archivePath) }) { drafted in
            let seat = seat(channel)
            if !draft.isCommitted, try ReleaseFeed.published(options.version, in: feed) != nil { return nil }
            try requireOpen(team)
            try requireTrusted(try release.claims(url: archiveName))
            let prepared = try drafted ?? seat?.prepare(release, at: archivePath)
            if !draft.isCommitted {
                let names = deltas.compactMap { $0.entry?.url }
                try draft.commit(
                    options.version.folderName, archive: archiveName,
                    besides: (names.isEmpty ? [] : names + [DeltaListFormat.fileName])
                        + (options.notes == nil ? [] : [ReleaseNotes.fileName]),
                    manifest: try document(release, url: archiveName))
            }
            let report = try prepared.flatMap { try seat?.put($0) }
            if report == nil { try makeNewest(try document(release, url: archivePath)) }
            var answer = try summary(.published, release.manifest, tree, isNewest: isNewest(), report)
            answer.deltas = deltas
            return answer
        }
    }

    /// Looks for the content of `manifest` among the highest versions of the feed: a publisher may have forgotten to build.
    private func sameContent(_ manifest: Manifest) throws -> FolderFinding? {
        let others = try ReleaseFeed.versions(in: feed).filter { $0 != manifest.version }.sorted(by: >)
        let same = try others.prefix(Self.mostCompared).first { version in
            do {
                return try ReleaseFeed.published(version, in: feed)?.claims.contentSha256 == manifest.contentSha256
            } catch let failure as UpdateFailure where failure.code == .configInvalid {
                // A release that is damaged does not keep the next one out.
                return false
            }
        }
        return try same.map { version in
            FolderFinding(
                .sameContent, try BundlePath(parsing: "index.html"), size: manifest.installedSize ?? 0,
                version.description)
        }
    }

    /// Releases whose content is compared with a new one: each is one read of the feed.
    private static let mostCompared = 10

    /// What a release must find in the feed, now and when it is put there.
    private func requireOpen(_ team: Team) throws {
        try FeedTrust(in: feed, clock: .now)?.require(team.all, as: .release)
        try PresentManifest(in: feed, anchor: options.trust, clock: .now)?
            .require(goesBefore: options.appId, by: team.all)
    }

    private func seat(_ channel: ChannelPlan?) -> ChannelSeat? {
        ChannelSeat(channel, in: feed, appId: options.appId)
    }

    /// Does `work` with others kept out; the channel's document is drafted before where that takes long.
    private func change<Answer>(
        _ channel: ChannelPlan?, _ draft: (ChannelSeat) throws -> ChannelDesk.Prepared,
        _ work: (ChannelDesk.Prepared?) throws -> Answer
    ) throws -> Answer {
        let isQuick = channel?.options.signers.areQuick ?? true
        return try feed.change(
            options.wait, channels: isQuick ? [] : channel.map { [$0.name] } ?? [],
            draft: { isQuick ? nil : try seat(channel).map(draft) }, work)
    }

    private var vanished: UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: options.version.description,
            "Version \(options.version) was published by another clientctl and removed again meanwhile: publish it again."
        )
    }

    /// Who signs the release.
    private struct Team {
        let first: Signer
        let others: [Signer]

        var all: [Signer] { [first] + others }
    }

    private var archiveName: String { ReleaseFeed.archiveName(options.version, options.format.rawValue) }

    private var archivePath: String { "releases/\(options.version.folderName)/\(archiveName)" }

    /// Packs, checks the result with the installer's own reader, and signs it.
    private func seal(
        _ tree: CanonicalTree, into file: File, _ team: Team, scratch: Directory
    ) throws -> SignedRelease {
        let packed = try ArchivePacker(tree: tree, options: options, report: report).pack(into: file)
        var manifest = Manifest(
            version: options.version, url: archiveName, sha256: packed.sha256, shells: options.shells)
        manifest.appId = options.appId
        manifest.size = packed.size
        manifest.contentSha256 = packed.contentSha256
        manifest.installedSize = tree.totalBytes
        manifest.fileCount = tree.entries.count
        manifest.createdAt = options.createdAt
        manifest.keyId = team.first.publicKey.id
        manifest.notesSha256 = try options.notes.map { try SHA256Digest.of(Array($0.utf8)) }
        if packed.size > options.limits.archiveBytes {
            throw UpdateFailure(
                .archiveRejected, subject: archiveName,
                "The archive has \(ByteCount(bytes: packed.size)), allowed are \(ByteCount(bytes: options.limits.archiveBytes)): "
                    + "leave something out, or raise --max-archive-size here and on every device.")
        }
        let unpacked = try ArchiveVerifier.check(
            file, size: packed.size, of: manifest, limits: options.limits, scratch: scratch)
        if unpacked != packed.contentSha256 { throw try renamed(tree, in: file) }
        let statement = try manifest.statement()
        return SignedRelease(
            manifest: manifest, signature: try team.first.sign(statement),
            others: try team.others.map {
                SignedEnvelope.Signature(keyId: $0.publicKey.id, bytes: try $0.sign(statement))
            }, trusted: team.all.trusted)
    }

    /// Archives have names in Unicode's composed form, whatever form they have on the disk: devices would not find what pages name.
    private func renamed(_ tree: CanonicalTree, in file: File) throws -> UpdateFailure {
        let kept = Set(try ArchiveListing.read(file, limits: options.limits).entries.map { Array($0.shownName.utf8) })
        let names = tree.entries.filter { !kept.contains($0.path.bytes) }.map(\.path.string)
        return UpdateFailure(
            .archiveRejected, subject: "name-form: \(names.first ?? options.version.description)",
            "Devices would have other names than this folder, where letters and their accents are one character: rename "
                + "\(names.prefix(20).joined(separator: ", ")) to Unicode's composed form (NFC), and what names them in pages, as "
                + "with convmv -f utf8 -t utf8 --nfc -r --notest.")
    }

    /// Whether devices that follow the feed's trust root, if it has one, would take it now.
    private func requireTrusted(_ manifest: UnverifiedManifest) throws {
        try FeedTrust(in: feed, clock: .now)?.require(manifest)
        guard let anchor = options.trust else { return }
        _ = try NewDevice(following: anchor, in: feed, clock: .now).verify(manifest)
    }

    private func document(_ release: SignedRelease, url: String) throws -> [UInt8] {
        JSONWriter.bytes(of: try release.claims(url: url).document, layout: .pretty)
    }

    // MARK: The feed's newest

    private func wouldBeNewest() throws -> Bool {
        guard let newest = try ReleaseFeed.newest(in: feed) else { return true }
        return newest.claims.version <= options.version
    }

    private func isNewest() throws -> Bool { try ReleaseFeed.newest(in: feed)?.claims.version == options.version }

    /// Shows `manifest` to devices unless they see a newer one; whether it did.
    @discardableResult
    private func makeNewest(_ manifest: [UInt8]) throws -> Bool {
        let present = try ReleaseFeed.newestRecord(in: feed)
        if let present, present.manifest.claims.version > options.version { return false }
        let isBehind = present?.manifest.claims.version != options.version
        try ReleaseFeed.setNewest(manifest, in: feed, after: present?.record)
        return isBehind
    }

    // MARK: Published before

    /// The same release again changes nothing, but completes a feed whose publisher was stopped before its last step.
    private func confirm(
        _ published: UnverifiedManifest, _ tree: CanonicalTree, _ team: Team, _ channel: ChannelPlan?
    ) throws -> ReleaseReport {
        let claims = published.claims
        if let difference = difference(claims, try tree.digest()) {
            throw UpdateFailure(
                .versionExists, subject: options.version.description,
                "Version \(options.version) was published before with \(difference). "
                    + "Choose a higher version: a published one never changes.")
        }
        try requireIntact(published, by: team.all)
        if channel != nil || options.trust != nil {
            try requireTrusted(published)
        }
        let path = "releases/\(options.version.folderName)/\(claims.url)"
        return try change(channel, { try $0.prepare(published, at: path) }) { drafted in
            let seat = seat(channel)
            var isCompleted = false
            if seat == nil, try wouldBeNewest(), try !isNewest() {
                var document = published.document.objectValue ?? [:]
                document["url"] = .string(path)
                isCompleted = try makeNewest(JSONWriter.bytes(of: .object(document), layout: .pretty))
            }
            try feed.settle(ReleaseFeed.releasesName)
            let prepared = try drafted ?? seat?.prepare(published, at: path)
            let report = try prepared.flatMap { try seat?.put($0) }
            if let report, report.outcome != .unchanged { isCompleted = true }
            return try summary(
                isCompleted ? .completed : .unchanged, claims, tree, isNewest: isNewest(), report)
        }
    }

    /// Refuses other content under the version of a release that was removed: devices that have it keep what they have.
    private func requireSameContent(_ tree: CanonicalTree) throws {
        guard let retired = try RetiredRelease.manifest(of: options.version, in: feed)?.claims,
            let difference = difference(retired, try tree.digest())
        else { return }
        throw UpdateFailure(
            .versionExists, subject: options.version.description,
            "Version \(options.version) was published before with \(difference), and removed since; devices that have it would keep it. "
                + "Choose a higher version: a published one never changes.")
    }

    /// "Nothing to do" is only said of a release that a device with these keys could install.
    private func requireIntact(_ published: UnverifiedManifest, by signers: [Signer]) throws {
        let claims = published.claims
        let version = claims.version
        guard (try? ManifestVerifier.verify(published, trusted: signers.trusted)) != nil else {
            throw UpdateFailure(
                .versionExists, subject: version.description,
                "Version \(version) was published before with other keys: use those, or choose a higher version.")
        }
        guard try ReleaseFeed.hasArchive(of: claims, in: feed) else {
            throw UpdateFailure(
                .digestMismatch, subject: claims.url,
                "The archive of \(version) in the feed is missing or is not the one that was signed: restore it, or "
                    + "remove releases/\(version.folderName) and publish again.")
        }
    }

    private func difference(_ published: Manifest, _ content: SHA256Digest) -> String? {
        if published.contentSha256 != content { return "different content" }
        if published.appId != options.appId { return "another application" }
        if published.shells != options.shells { return "another range of shells" }
        return nil
    }

    private func summary(
        _ outcome: ReleaseReport.Outcome, _ manifest: Manifest, _ tree: CanonicalTree, isNewest: Bool,
        _ channel: ChannelReport?
    ) throws -> ReleaseReport {
        let offered = try ReleaseFeed.newest(in: feed)?.claims
        var report = ReleaseReport(
            outcome: options.isDryRun && outcome != .unchanged ? .dryRun : outcome, manifest: manifest,
            isNewest: isNewest, offered: isNewest ? manifest.version : offered?.version,
            largest: Array(tree.entries.sorted { $0.size > $1.size }.prefix(5)),
            raisedLimits: raisedLimits(manifest, tree), channel: channel, writes: rehearsal?.writes)
        report.warnings = try keptWarnings(manifest)
        if channel == nil, let offered, offered.version > manifest.version {
            report.warnings.append(
                "manifest.json offers \(offered.version), which is higher, so no device takes \(manifest.version). Publish a higher "
                    + "version.")
        }
        return report
    }

    /// What a release that was published before keeps, whatever the options are now.
    private func keptWarnings(_ published: Manifest) throws -> [String] {
        var kept: [String] = []
        let notes = try options.notes.map { try SHA256Digest.of(Array($0.utf8)) }
        if published.notesSha256 != notes { kept.append("its notes") }
        if !published.url.hasSuffix("." + options.format.rawValue) { kept.append("its format") }
        if kept.isEmpty { return [] }
        return [
            "\(published.version) was published before and keeps \(kept.joined(separator: " and ")): a published release never "
                + "changes. Publish a higher version."
        ]
    }

    private func raisedLimits(_ manifest: Manifest, _ tree: CanonicalTree) -> [String] {
        let usual = ArchiveLimits()
        var flags: [String] = []
        if manifest.size ?? 0 > usual.archiveBytes { flags.append("--max-archive-size") }
        if tree.totalBytes > usual.installedBytes { flags.append("--max-installed-size") }
        if tree.entries.contains(where: { $0.size > usual.fileBytes }) { flags.append("--max-file-size") }
        if tree.entries.count > usual.entries { flags.append("--max-files") }
        return flags
    }
}
