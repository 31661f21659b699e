package import BundleFormats
import BundleDisk
import BundleSigning
package import BundleValues

/// An offline kit: a feed in a folder, for example on a USB drive, with everything that devices need for the current
/// channel files.
package struct FeedExport {
    /// The result of an export.
    package struct Kit: Sendable {
        /// The files of the kit, in the order of writing.
        package internal(set) var written: [FeedEntry] = []
        /// The sequence of each channel in the kit.
        package internal(set) var channels: [String: Int] = [:]
        /// The version that its `manifest.json` offers; nil if it has none.
        package internal(set) var offered: SemanticVersion?
        /// The releases in the kit, highest first.
        package internal(set) var releases: [SemanticVersion] = []
        /// The releases that a channel lists but no device installs, which the kit omits, each with advice.
        package internal(set) var leftOut: [(version: SemanticVersion, advice: String)] = []
        /// The keys that verified the kit.
        package internal(set) var verifiedBy = Voucher.nobody
    }

    /// The keys that verify a kit.
    package enum Voucher: String, Sendable {
        /// The keys that devices trust, given by the caller.
        case given
        /// The feed's own trust root, which finds mistakes but not an attacker.
        case feed
        case nobody
    }

    private let source: any FeedLocation
    private let trust: TrustAnchor?
    private let clock: Timestamp

    /// Exports the feed `source`. `trust` has the keys that devices trust, if they are known.
    package init(of source: any FeedLocation, trust: TrustAnchor?, clock: Timestamp) {
        (self.source, self.trust, self.clock) = (source, trust, clock)
    }

    /// Writes the kit to the folder `path`, which must be missing or empty, with the given channels, or all channels
    /// if none are given. The kit is checked with `fetcher` as a device would before the folder gets its name.
    package func run(to path: String, channels: [String], with fetcher: any Fetcher) async throws -> Kit {
        try source.address.requireExists()
        let folder = try KitFolder(path)
        var documents = try documents(of: channels)
        var report = Kit()
        report.leftOut = try leaveOut(from: &documents)
        for (name, claim) in try files(of: documents.compactMap(\.live)).sorted(by: { $0.key < $1.key }) {
            report.written.append(try folder.copy(name, from: source, claim: claim))
        }
        for document in documents {
            report.written.append(try folder.write(document.bytes, to: document.name))
            document.live?.add(to: &report)
        }
        report.releases.sort(by: >)
        report.written.append(try folder.write(Self.readme(of: report, at: clock), to: Self.readmeName))
        report.verifiedBy = try await check(folder, of: report, with: fetcher)
        try folder.publish()
        return report
    }

    /// Removes the releases of channels that the feed's trust root does not authorize from `documents`. Devices skip
    /// them as well.
    private func leaveOut(from documents: inout [KitDocument]) throws -> [(version: SemanticVersion, advice: String)] {
        guard let trust = try FeedTrust(in: source, clock: clock) else { return [] }
        var leftOut: [(version: SemanticVersion, advice: String)] = []
        for index in documents.indices {
            guard let live = documents[index].live, let channel = live.channel else { continue }
            for version in live.untrusted {
                leftOut.append(
                    (
                        version,
                        "\(trust.refusal(of: version)), so the kit omits it. Remove it with `clientctl release withdraw "
                            + "--version \(version) --channel \(channel.name)`."
                    ))
            }
            documents[index].live?.manifests.removeAll { live.untrusted.contains($0.version) }
        }
        return leftOut
    }

    /// A file of the feed that devices follow.
    private struct KitDocument {
        let name: String
        let bytes: [UInt8]
        /// The releases that it offers; nil for a trust root.
        var live: Live?
    }

    /// The releases that a channel file or `manifest.json` offers.
    private struct Live {
        let name: String
        var manifests: [Manifest]
        /// The versions whose signatures the feed's trust root does not authorize.
        var untrusted: [SemanticVersion] = []
        /// The channel and its sequence; nil for `manifest.json`.
        var channel: (name: String, sequence: Int)?

        func add(to report: inout Kit) {
            if let channel {
                report.channels[channel.name] = channel.sequence
            } else {
                report.offered = manifests.first?.version
            }
            for manifest in manifests where !report.releases.contains(manifest.version) {
                report.releases.append(manifest.version)
            }
        }
    }

    /// Returns the files in the order of writing: trust roots, channels, `manifest.json`.
    private func documents(of chosen: [String]) throws -> [KitDocument] {
        let names = try chosen.isEmpty ? ChannelWriter.channels(in: source) : chosen
        let trust = try FeedTrust(in: source, clock: clock)
        let channels = try names.sorted().map { name in
            let path = ChannelWriter.path(of: name)
            guard let record = try ChannelWriter.record(of: name, in: source) else {
                throw FeedCopy.missing(path, in: source)
            }
            let claims = try ChannelFormat.document(in: record.bytes)
            var live = Live(
                name: path, manifests: claims.releases.map(\.manifest.claims), channel: (name, claims.sequence))
            if let trust { live.untrusted = claims.releases.filter { !trust.accepts($0.manifest) }.map(\.version) }
            return KitDocument(name: path, bytes: record.bytes, live: live)
        }
        // `manifest.json` follows the default channel, so it is omitted if only other channels are wanted.
        let isNewestWanted = chosen.isEmpty || chosen.contains(ChannelFileName.standard)
        let newest = try isNewestWanted ? ReleaseFeed.newestRecord(in: source) : nil
        let last = newest.map { found in
            KitDocument(
                name: ReleaseFeed.manifestName, bytes: found.record.bytes,
                live: Live(name: ReleaseFeed.manifestName, manifests: [found.manifest.claims]))
        }
        if channels.isEmpty, last == nil {
            throw UpdateFailure(
                .configInvalid, subject: "\(source.address)",
                "\(source.address) has no manifest.json and no channel, so it offers nothing to devices. Check --feed."
            )
        }
        return try roots() + holds(of: names) + channels + (last.map { [$0] } ?? [])
    }

    private func holds(of channels: [String]) throws -> [KitDocument] {
        try channels.compactMap { channel in
            let path = HoldEditor.path(of: channel)
            return try source.read(path, maximumBytes: HoldFormat.maximumBytes).map {
                KitDocument(name: path, bytes: $0.bytes)
            }
        }
    }

    /// Returns all trust roots, because a device follows the chain from its own root to the newest.
    private func roots() throws -> [KitDocument] {
        let names = try source.list("trust").map(\.name).sorted() + [FeedTrust.fileName]
        return try names.compactMap { name in
            try source.read(name, maximumBytes: TrustRootFormat.maximumBytes).map {
                KitDocument(name: name, bytes: $0.bytes)
            }
        }
    }

    // MARK: The files of releases

    /// The size and digest that a signed file states for a file it references.
    struct FileClaim {
        var sha256: SHA256Digest?
        var size: Int?
        /// The maximum size of the file, in bytes.
        var maximumBytes: Int { size ?? limit }
        var limit = ArchiveLimits().archiveBytes
    }

    /// Returns the files of the releases in `live`, by path.
    private func files(of live: [Live]) throws -> [String: FileClaim] {
        var files: [String: FileClaim] = [:]
        for document in live {
            for manifest in document.manifests {
                let archive = try path(of: manifest.url, from: document.name)
                files[archive] = FileClaim(sha256: manifest.sha256, size: manifest.size)
                let own = try path(of: ReleaseFeed.manifestName, from: archive)
                if own != ReleaseFeed.manifestName,
                    try source.read(own, maximumBytes: ManifestFormat.maximumBytes) != nil
                {
                    files[own] = FileClaim(limit: ManifestFormat.maximumBytes)
                }
                let notes = try path(of: ReleaseNotes.fileName, from: archive)
                if let digest = manifest.notesSha256,
                    try source.read(notes, maximumBytes: ReleaseNotes.maximumBytes) != nil
                {
                    files[notes] = FileClaim(sha256: digest)
                }
                let list = try path(of: DeltaListFormat.fileName, from: archive)
                guard let record = try source.read(list, maximumBytes: DeltaListFormat.maximumBytes) else { continue }
                files[list] = FileClaim(sha256: try SHA256Digest.of(record.bytes), size: record.bytes.count)
                for delta in try DeltaListFormat.parse(DeltaListFormat.envelope(parsing: record.bytes)).deltas {
                    files[try path(of: delta.url, from: list)] = FileClaim(sha256: delta.sha256, size: delta.size)
                }
            }
        }
        return files
    }

    private func path(of url: String, from document: String) throws -> String {
        if let path = Self.path(of: url, from: document) { return path }
        throw UpdateFailure(
            .configInvalid, subject: "\(source.address)/\(document)",
            "\(source.address)/\(document) refers to \(UntrustedName.display(url)), which is outside the feed, so a kit cannot include it."
        )
    }

    /// Returns the path that `url` refers to from the file `document` of a feed; nil for a path outside the feed.
    static func path(of url: String, from document: String) -> String? {
        guard !url.hasPrefix("/"), !url.contains(where: { ":?#%\\".contains($0) }) else { return nil }
        var parts = document.split(separator: "/").dropLast().map(String.init)
        for part in url.split(separator: "/", omittingEmptySubsequences: false).map(String.init) {
            switch part {
            case "": return nil
            case ".": continue
            case "..": if parts.popLast() == nil { return nil }
            default: parts.append(part)
            }
        }
        return parts.isEmpty ? nil : parts.joined(separator: "/")
    }

    // MARK: README

    private static let readmeName = "README.txt"

    /// Returns three lines for the person who stands at the device.
    private static func readme(of report: Kit, at clock: Timestamp) -> [UInt8] {
        let channels = report.channels.sorted { $0.key < $1.key }
        let what =
            channels.map { "channel \($0.key) at \($0.value)" }
            + (report.offered.map { ["manifest.json with \($0)"] } ?? [])
        let standard = channels.first { $0.key == ChannelFileName.standard } ?? channels.first
        let source =
            standard.map { "--channel KIT/channels/\(ChannelFileName.file(of: $0.key))" }
            ?? "--manifest KIT/manifest.json"
        return Array(
            """
            A feed for clientctl, exported at \(clock): \(what.joined(separator: ", ")).
            On the device, with this folder as KIT and what the device trusts (trust.json or a public key) as TRUST:
            clientctl install \(source) --trust TRUST --store STORE --shell-version VERSION

            """.utf8)
    }

    // MARK: Verification

    private func check(_ folder: KitFolder, of report: Kit, with fetcher: any Fetcher) async throws -> Voucher {
        let base = try FetchURL(filePath: Array("\(try folder.path)/".utf8))
        let anchor = try trust ?? folder.root()
        var check = try FeedCheck(base, with: fetcher, trust: anchor, origin: nil, clock: clock)
        let leftOut = Set(report.leftOut.map(\.version))
        check.leavesOut = leftOut.contains
        let found = try await check.run(channels: report.channels.keys.sorted()).findings
        if let worst = found.first(where: { $0.failure != nil }), let code = worst.failure {
            let location = base.display
            let subject =
                worst.subject.hasPrefix(location) ? String(worst.subject.dropFirst(location.utf8.count)) : worst.subject
            throw UpdateFailure(
                code, subject: "\(source.address)/\(subject)",
                "No device would install all of this, so nothing was written. \(subject): \(worst.message)")
        }
        return anchor == nil ? .nobody : trust == nil ? .feed : .given
    }
}
