import BundleArchive
import BundleDisk
package import BundleFormats
import BundleSigning
import BundleValues
import CLibrary

/// Publishes releases: inspects a folder, packs it, verifies the archive as an installer would, signs it and writes
/// the feed.
package struct ReleaseBuilder {
    let options: ReleaseOptions
    let feed: any FeedLocation
    /// The location of a dry run; nil otherwise.
    let dryRun: DryRunLocation?
    private let report: UpdateObserver

    /// Publishes to `feed`; `report` receives progress events.
    package init(
        _ options: ReleaseOptions, feed: any FeedLocation, report: UpdateObserver
    ) {
        self.options = options
        dryRun = options.isDryRun ? DryRunLocation(feed) : nil
        self.feed = dryRun ?? feed
        self.report = report
    }

    /// Inspects the web folder `source` before anything is packed. Throws if it may not be published.
    package func inspect(_ source: String) throws -> FolderInspection {
        try MisplacedContent.refuse(in: source, feed: feed.address.folder, options)
        let inspection = try FolderInspection(
            Directory.open(source), excluding: options.excluded, dropping: options.drops, allowed: options.allowed,
            isProgram: options.program != nil)
        try inspection.tree.requireInstallable(options.limits, program: options.program)
        if options.program == nil {
            try Self.requireBridge(inspection.tree.folder, source: source)
            try inspection.requireScripts(allowing: options.allowed, of: source)
            try inspection.requireOrigins(of: source)
        } else {
            try requireOneMachine(inspection.tree)
        }
        let formats = [options.format] + (options.isForPhones ? [.zip] : [])
        for format in formats {
            if let problem = format.problem(files: inspection.tree.entries.count, bytes: inspection.tree.totalBytes) {
                throw UpdateFailure(.archiveRejected, subject: "format: \(source)", "\(source) \(problem)")
            }
        }
        if let budget = options.budget {
            try inspection.requireBudget(budget, over: try previous(), of: source)
        }
        return inspection
    }

    /// Throws if the executable files are for several processors, or for another one than the channel's name states.
    private func requireOneMachine(_ tree: CanonicalTree) throws {
        var wanted = options.channel.flatMap { name in ProgramMachine(channel: name).map { ($0, "channel \(name)") } }
        for entry in tree.entries {
            let head = try tree.folder.file(entry.path.string).head(min(entry.size, ProgramMachine.headBytes))
            guard let machine = ProgramMachine(head: head) else { continue }
            if let (known, requirer) = wanted, known != machine {
                throw machine.refusal(of: entry.path, wanted: known, by: "\(requirer) is")
            }
            wanted = wanted ?? (machine, "\(entry.path)")
        }
    }

    /// Returns the highest release of the feed below the new one; nil if there is none.
    private func previous() throws -> UnverifiedManifest? {
        let lower = try ReleaseFeed.versions(in: feed).filter { $0 < options.version }
        return try lower.max().flatMap { try ReleaseFeed.published($0, in: feed) }
    }

    /// Throws for a UTF-16 page: the host cannot insert `WebAppLocalServer` into it, so the page could never confirm
    /// its start.
    private static func requireBridge(_ folder: Directory, source: String) throws {
        let mark = try folder.file("index.html").head(2)
        guard mark == [0xFF, 0xFE] || mark == [0xFE, 0xFF] else { return }
        throw UpdateFailure(
            .archiveRejected, subject: "encoding: index.html",
            "Not published. \(source)/index.html is UTF-16, so WebAppLocalServer cannot be inserted and devices would roll the release back: save it "
                + "as UTF-8.")
    }

    /// Publishes an inspected folder with the signatures of `signers`, the first of which is the main one, and adds
    /// the release to `channel`. `sealer` encrypts the bundle for phones, if the release has one.
    package func publish(
        _ inspection: FolderInspection, signers: [Signer], sealer: PhoneSealer? = nil, to channel: ChannelPlan? = nil
    ) throws -> ReleaseReport {
        let tree = inspection.tree
        guard let first = signers.first else {
            throw UpdateFailure(.configInvalid, subject: "key", "A release needs at least one signature. Give --key.")
        }
        let team = Team(first: first, others: Array(signers.dropFirst()))
        var channel = channel
        channel?.options.isFeedNew = try hasNoLostChannel()
        // Checked before the slow part: a release without its channel would never be offered.
        try publication(channel)?.requireAcceptance(of: options.version)
        if channel == nil { try requireNoStandardChannel() }
        try requireOpen(team)
        if let published = try ReleaseFeed.published(options.version, in: feed) {
            let report = try confirm(published, tree: tree, team: team, channel: channel)
            try keepMaps(inspection)
            return report
        }
        try requireSameContent(tree)
        let isNew = try feed.isNew
        let draft = try feed.draft(options.wait)
        let release = try seal(tree, team: team, in: draft.scratch)
        let same = try sameContent(release.manifest)
        // Stored before devices have the release, because crash reports need the maps.
        try keepMaps(inspection)
        let deltas = try deltas(to: release, tree, in: draft.scratch)
        try writeList(of: deltas, to: release, team: team, in: draft.scratch)
        let phone = try phoneFiles(of: release, tree, team: team, sealer: sealer, in: draft.scratch)
        if let notes = options.notes {
            try draft.scratch.replaceFile(ReleaseNotes.fileName, with: Array(notes.utf8))
        }
        guard
            var report = try commit(
                release, draft: draft, deltas: deltas, phone: phone.names, tree: tree, team: team, channel: channel)
        else {
            // Another process published this version during the packing.
            guard let published = try ReleaseFeed.published(options.version, in: feed) else { throw vanished }
            return try confirm(published, tree: tree, team: team, channel: channel)
        }
        report.sameContent = same
        report.phone = phone.bundle
        report.isFeedNew = isNew
        return report
    }

    private func writeList(
        of deltas: [DeltaReport], to release: SignedRelease, team: Team, in scratch: Directory
    ) throws {
        let list = try DeltaPublisher(feed, signers: team.all, anchor: options.trust)
            .list(of: deltas, for: release.claims(url: archiveName))
        if let list { try scratch.replaceFile(DeltaListFormat.fileName, with: list) }
    }

    /// Whether no channel of the feed can be lost: it has none, and no other release that one could have offered.
    private func hasNoLostChannel() throws -> Bool {
        try feed.list(ChannelWriter.folder).isEmpty && ReleaseFeed.newestRecord(in: feed) == nil
            && ReleaseFeed.versions(in: feed).allSatisfy { $0 == options.version }
    }

    /// Throws if the release would move `manifest.json` past the standard channel, which it follows, or if a channel
    /// recalls it.
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

    private func keepMaps(_ inspection: FolderInspection) throws {
        if let folder = options.mapsFolder, !options.isDryRun {
            try inspection.keepMaps(in: folder, of: options.version)
        }
    }

    private func deltas(
        to release: SignedRelease, _ tree: CanonicalTree, in folder: Directory
    ) throws -> [DeltaReport] {
        guard let terms = options.deltas else { return [] }
        return try DeltaBuilder(feed: feed, terms: terms, limits: options.limits, report: report)
            .make(to: tree, of: release.manifest, into: folder)
    }

    /// Writes a sealed release to the feed, which is locked only for that. Returns nil if the feed has this version
    /// by now.
    private func commit(
        _ release: SignedRelease, draft: any ReleaseDraft, deltas: [DeltaReport], phone: [String],
        tree: CanonicalTree, team: Team, channel: ChannelPlan?
    ) throws -> ReleaseReport? {
        try change(channel, draft: { try $0.prepare(release, at: archivePath) }) { drafted in
            let publication = publication(channel)
            if !draft.isCommitted, try ReleaseFeed.published(options.version, in: feed) != nil { return nil }
            try requireOpen(team)
            try requireTrusted(try release.claims(url: archiveName))
            let prepared = try drafted ?? publication?.prepare(release, at: archivePath)
            if !draft.isCommitted {
                let names = deltas.compactMap { $0.entry?.url }
                try draft.commit(
                    options.version.folderName, archive: archiveName,
                    besides: (names.isEmpty ? [] : names + [DeltaListFormat.fileName])
                        + (options.notes == nil ? [] : [ReleaseNotes.fileName]) + phone,
                    manifest: try document(release, url: archiveName))
            }
            let report = try prepared.flatMap { try publication?.put($0) }
            if report == nil { try makeNewest(try document(release, url: archivePath)) }
            var answer = try summary(
                .published, of: release.manifest, tree: tree, isNewest: isNewest(), channel: report)
            answer.deltas = deltas
            return answer
        }
    }

    /// Looks for the content of `manifest` in the highest versions of the feed: the publisher may have forgotten to
    /// build.
    private func sameContent(_ manifest: Manifest) throws -> FolderFinding? {
        let others = try ReleaseFeed.versions(in: feed).filter { $0 != manifest.version }.sorted(by: >)
        let same = try others.prefix(Self.mostCompared).first { version in
            do {
                return try ReleaseFeed.published(version, in: feed)?.claims.contentSha256 == manifest.contentSha256
            } catch let failure as UpdateFailure where failure.code == .configInvalid {
                // A damaged release does not block the next one.
                return false
            }
        }
        return try same.map { version in
            FolderFinding(
                .sameContent, in: try BundlePath(parsing: "index.html"), size: manifest.installedSize ?? 0,
                detail: version.description)
        }
    }

    /// The number of releases to compare; each costs one read of the feed.
    private static let mostCompared = 10

    /// Checks the feed, before the packing and again with the lock held.
    private func requireOpen(_ team: Team) throws {
        try FeedTrust(in: feed, clock: .now)?.require(team.all, as: options.kind.role)
        try PresentManifest(in: feed, anchor: options.trust, clock: .now)?
            .require(goesBefore: options.appId, by: team.all, isNewKeyTrusted: options.devicesTrustNewKey)
    }

    func publication(_ channel: ChannelPlan?) -> ChannelPublication? {
        ChannelPublication(channel, in: feed, appId: options.appId)
    }

    /// Runs `work` with other publishers locked out. If signing is slow, the channel file is drafted before.
    func change<Answer>(
        _ channel: ChannelPlan?, draft: (ChannelPublication) throws -> ChannelWriter.PreparedChannel,
        work: (ChannelWriter.PreparedChannel?) throws -> Answer
    ) throws -> Answer {
        let isQuick = channel?.options.signers.areQuick ?? true
        return try feed.change(
            options.wait, channels: isQuick ? [] : channel.map { [$0.name] } ?? [],
            draft: { isQuick ? nil : try publication(channel).map(draft) }, work: work)
    }

    private var vanished: UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: options.version.description,
            "Version \(options.version) was published and removed by another process. Publish it again.")
    }

    struct Team {
        let first: Signer
        let others: [Signer]

        var all: [Signer] { [first] + others }
    }

    private var archiveName: String { ReleaseFeed.archiveName(of: options.version, suffix: options.format.rawValue) }

    private var archivePath: String { "releases/\(options.version.folderName)/\(archiveName)" }

    /// Packs the tree, verifies the archive with the installer's reader, and signs it.
    private func seal(_ tree: CanonicalTree, team: Team, in scratch: Directory) throws -> SignedRelease {
        let file = try scratch.file(creating: archiveName)
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
        manifest.requiredEndpoints = options.requiredEndpoints
        manifest.program = options.program
        manifest.notesSha256 = try options.notes.map { try SHA256Digest.of(Array($0.utf8)) }
        if packed.size > options.limits.archiveBytes {
            throw UpdateFailure(
                .archiveRejected, subject: archiveName,
                "The archive has \(ByteCount(bytes: packed.size)), more than \(ByteCount(bytes: options.limits.archiveBytes)). "
                    + "Exclude files, or raise --max-archive-size here and on every device.")
        }
        let unpacked = try ArchiveVerifier.check(
            file, size: packed.size, of: manifest, limits: options.limits, scratch: scratch)
        if unpacked.sha256 != packed.contentSha256 { throw try renamed(tree, in: file) }
        try file.sync()
        let statement = try manifest.statement()
        return SignedRelease(
            manifest: manifest, signature: try team.first.sign(statement),
            others: try team.others.map {
                SignedEnvelope.Signature(keyId: $0.publicKey.id, bytes: try $0.sign(statement))
            }, trusted: team.all.trusted)
    }

    /// Archives store names in Unicode's composed form, so devices would not find files that pages name in another
    /// form.
    private func renamed(_ tree: CanonicalTree, in file: File) throws -> UpdateFailure {
        let kept = Set(try ArchiveListing.read(file, limits: options.limits).entries.map { Array($0.shownName.utf8) })
        let names = tree.entries.filter { !kept.contains($0.path.bytes) }.map(\.path.string)
        return UpdateFailure(
            .archiveRejected, subject: "name-form: \(names.first ?? options.version.description)",
            "Names have accents as separate characters (Unicode NFD, as macOS writes them): "
                + "\(names.prefix(20).joined(separator: ", ")). Devices have the composed names (NFC), so rename them, in pages as well: "
                + "convmv -f utf8 -t utf8 --nfc -r --notest.")
    }

    /// Throws if devices that follow the feed's trust root would refuse the release now.
    func requireTrusted(_ manifest: UnverifiedManifest) throws {
        try FeedTrust(in: feed, clock: .now)?.require(manifest)
        guard let anchor = options.trust else { return }
        _ = try NewDevice(following: anchor, in: feed, clock: .now).verify(manifest)
    }

    private func document(_ release: SignedRelease, url: String) throws -> [UInt8] {
        JSONWriter.bytes(of: try release.claims(url: url).document, layout: .pretty)
    }
}

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
            let prepared = try drafted ?? publication?.prepare(published, at: path)
            let report = try prepared.flatMap { try publication?.put($0) }
            if let report, report.outcome != .unchanged { isCompleted = true }
            return try summary(
                isCompleted ? .completed : .unchanged, of: claims, tree: tree, isNewest: isNewest(), channel: report,
                rollout: channel?.rollout)
        }
    }

    /// Throws if a removed release of this version had other content, because devices that have it would keep it.
    private func requireSameContent(_ tree: CanonicalTree) throws {
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
        if published.program != options.program { return "another program" }
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

    private func wouldBeNewest() throws -> Bool {
        guard let newest = try ReleaseFeed.newest(in: feed) else { return true }
        return newest.claims.version <= options.version
    }

    func isNewest() throws -> Bool { try ReleaseFeed.newest(in: feed)?.claims.version == options.version }

    /// Offers `manifest` unless devices see a newer release. Returns whether it changed the offer.
    @discardableResult
    private func makeNewest(_ manifest: [UInt8]) throws -> Bool {
        let present = try ReleaseFeed.newestRecord(in: feed)
        if let present, present.manifest.claims.version > options.version { return false }
        let isBehind = present?.manifest.claims.version != options.version
        try ReleaseFeed.setNewest(manifest, in: feed, after: present?.record)
        return isBehind
    }
}
