package import BundleFormats
package import BundleDisk
import BundleSigning
import BundleValues

/// Copies files between feed locations.
package enum FeedCopy {
    /// Copies the file `name` by way of `scratch`. Returns false if the source does not have it, or if the target
    /// already has it. Throws `sizeMismatch` if it has more than `maximumBytes`.
    package static func copy(
        _ name: String, maximumBytes: Int, from source: any FeedLocation, to target: any FeedLocation,
        by scratch: Directory
    ) throws -> Bool {
        let part = randomName("part-")
        let file = try scratch.file(creating: part)
        defer { try? scratch.removeFile(part) }
        guard try source.stream(name, maximumBytes: maximumBytes, body: { try file.write($0) }) else { return false }
        return try target.create(name, with: .file(file))
    }

    /// Copies the file `name` and, if it is a manifest, its archive into the folder `scratch`. Throws if a file is
    /// larger than its manifest or `limits` allow.
    package static func copyRelease(
        _ name: String, from source: any FeedLocation, into scratch: Directory, limits: ArchiveLimits
    ) throws {
        let target = FeedFolder(scratch.path)
        let copy = { (name: String, maximumBytes: Int) in
            try FeedCopy.copy(name, maximumBytes: maximumBytes, from: source, to: target, by: scratch)
        }
        guard try copy(name, largestDocument) else { throw missing(name, in: source) }
        guard let bytes = try target.read(name, maximumBytes: largestDocument)?.bytes,
            let manifest = try? ManifestFormat.parse(bytes).claims, !manifest.url.contains(":")
        else { return }
        let folder = name.split(separator: "/").dropLast().joined(separator: "/")
        let archive = folder.isEmpty ? manifest.url : "\(folder)/\(manifest.url)"
        let size = min(manifest.size ?? limits.archiveBytes, limits.archiveBytes)
        guard try copy(archive, size) else { throw missing(archive, in: source) }
    }

    private static let largestDocument = ChannelFormat.maximumBytes

    static func missing(_ name: String, in location: any FeedLocation) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: "\(location.address)/\(name)",
            "\(location.address) has no \(UntrustedName.display(name)). Check the address.")
    }
}

/// Copies a whole feed to another location. Referenced files are copied first, so devices can follow the target
/// during the copy. Files that devices of the target would refuse are rejected before the first file is copied.
package struct FeedTransfer {
    /// The result of a copy.
    package struct CopiedFiles: Sendable {
        /// The files that were written, in order.
        package var written: [FeedEntry] = []
        /// The number of files that the target already had.
        package var present = 0
        /// The files that do not belong to a feed, which were skipped.
        package var foreign: [String] = []
    }

    /// The parts of a feed in the order of copying.
    enum Part: Int, Comparable {
        case content, list, manifest, root, copy, trust, hold, channel, newest

        static func < (one: Part, other: Part) -> Bool { one.rawValue < other.rawValue }

        /// Returns the part that the file `name` belongs to; nil if it does not belong to a feed.
        init?(of name: String) {
            let parts = name.split(separator: "/")
            let isDocument = name.hasSuffix(".json")
            switch (parts.first, parts.count) {
            case ("releases", 3...):
                let last = parts.last.map(String.init)
                self =
                    last == ReleaseFeed.manifestName ? .manifest : last == DeltaListFormat.fileName ? .list : .content
            case (Substring(RetiredRelease.folder), 2) where isDocument: self = .content
            case ("trust", 2) where isDocument: self = .root
            case ("channels", 3) where isDocument: self = .copy
            // Before its channel file, so that no device sees that file without its hold.
            case ("channels", 2) where name.hasSuffix(".hold.json"): self = .hold
            case ("channels", 2) where isDocument: self = .channel
            case ("trust.json", 1): self = .trust
            case ("manifest.json", 1): self = .newest
            default: return nil
            }
        }

        /// Whether the file may be replaced. These files are read before the listing.
        var isDocument: Bool { [.list, .trust, .hold, .channel, .newest].contains(self) }
    }

    private let source: any FeedLocation
    private let target: any FeedLocation
    private let isDryRun: Bool

    package init(from source: any FeedLocation, to target: any FeedLocation, isDryRun: Bool) {
        (self.source, self.target, self.isDryRun) = (source, target, isDryRun)
    }

    /// Copies missing and changed files. A stopped copy can be run again.
    package func run(_ wait: FeedWait) throws -> CopiedFiles {
        try source.address.requireExists()
        // Read before the listing, so that the listing includes the files that they reference.
        let documents = try readDocuments()
        let listed = try source.list("").sorted { $0.name < $1.name }
        let all = listed.compactMap { entry in Part(of: entry.name).map { (part: $0, entry: entry) } }
        var present: Set<String> = []
        for (part, entry) in all where !part.isDocument {
            if try isPresent(entry) { present.insert(entry.name) }
        }
        let scratch = try TemporaryDirectory()
        var report = CopiedFiles()
        // A proposal is left out without a word: only the feed in which it was made can publish it.
        report.foreign = listed.map(\.name).filter { Part(of: $0) == nil && ChannelProposal.Entry($0) == nil }
        for (part, entry) in all.sorted(by: { $0.part < $1.part }) {
            let isWritten: Bool
            if part.isDocument {
                guard let bytes = documents[entry.name] else { continue }
                isWritten = try put(bytes, to: entry.name, waiting: wait)
            } else if present.contains(entry.name) {
                isWritten = false
            } else {
                isWritten =
                    try isDryRun
                    || FeedCopy.copy(
                        entry.name, maximumBytes: entry.size, from: source, to: target, by: scratch.directory)
            }
            if isWritten { report.written.append(entry) } else { report.present += 1 }
        }
        if !isDryRun { try removeRecalledManifest(wait) }
        return report
    }

    /// Returns the documents of the source by name, which the target's documents allow.
    private func readDocuments() throws -> [String: [UInt8]] {
        let documents: [(name: String, bytes: [UInt8])] = try source.list("").map(\.name).filter {
            Part(of: $0)?.isDocument == true
        }.compactMap { name in
            try source.read(name, maximumBytes: Self.largestDocument).map { (name, $0.bytes) }
        }
        if !documents.contains(where: { [.channel, .newest].contains(Part(of: $0.name)) }) {
            throw UpdateFailure(
                .configInvalid, subject: "\(source.address)",
                "\(source.address) has no manifest.json and no channel, so it is not a feed. Check the first address.")
        }
        try requireSameApplication(documents)
        for (name, bytes) in documents { try requireForward(of: name, to: bytes) }
        return Dictionary(documents.map { ($0.name, $0.bytes) }) { first, _ in first }
    }

    /// Removes the target's `manifest.json` if a copied channel file recalls its release. The source may have none.
    private func removeRecalledManifest(_ wait: FeedWait) throws {
        try target.change(wait, channels: [], draft: { nil as Void? }) { _ in
            guard let offered = try ReleaseFeed.newest(in: target)?.claims.version else { return }
            do {
                try FeedRecalls(in: target).requireManifest(offered)
            } catch let failure as UpdateFailure where failure.code == .versionBlocked {
                try target.remove(ReleaseFeed.manifestName)
            }
        }
    }

    private static let largestDocument = 64 << 20

    /// Returns whether the target has the file. Throws if it has a different file of that name.
    private func isPresent(_ entry: FeedEntry) throws -> Bool {
        let present: SHA256Digest?
        do {
            present = try target.digest(of: entry.name, maximumBytes: entry.size)
        } catch  where UpdateFailure(error).code == .sizeMismatch {
            throw other(entry)
        }
        guard let present else { return false }
        if try source.holds(entry.name, digest: present, size: entry.size) == true { return true }
        throw other(entry)
    }

    private func other(_ entry: FeedEntry) -> UpdateFailure {
        UpdateFailure(
            .versionExists, subject: entry.name,
            "\(target.address) has another \(UntrustedName.display(entry.name)) than \(source.address), and that file never changes. "
                + "Copy to another location, or remove it there.")
    }

    /// Throws if the target belongs to another application. A target without an application may get one.
    private func requireSameApplication(_ documents: [(name: String, bytes: [UInt8])]) throws {
        let own = documents.compactMap { Self.application(of: $0.name, $0.bytes) }
        for entry in try target.list("") where Part(of: entry.name)?.isDocument == true {
            guard let bytes = try target.read(entry.name, maximumBytes: Self.largestDocument)?.bytes,
                let before = Self.application(of: entry.name, bytes), !own.contains(before)
            else { continue }
            throw UpdateFailure(
                .appMismatch, subject: "\(target.address)/\(entry.name)",
                "\(target.address) is the feed of \(UntrustedName.display(before)), and \(source.address) that of "
                    + "\(own.first.map { UntrustedName.display($0) } ?? "no named application"). Each application has its own feed: "
                    + "check both addresses.")
        }
    }

    /// Returns the application of a file; nil if it names none or cannot be read.
    private static func application(of name: String, _ bytes: [UInt8]) -> String? {
        switch Part(of: name) {
        case .channel: try? ChannelFormat.document(in: bytes).appId
        case .trust: try? TrustRootFormat.parse(bytes).claims.appId
        case .newest: try? ManifestFormat.parse(bytes).claims.appId
        default: nil
        }
    }

    /// Replaces the target's file. Returns false if it is the same.
    private func put(_ bytes: [UInt8], to name: String, waiting wait: FeedWait) throws -> Bool {
        if isDryRun { return try target.read(name, maximumBytes: Self.largestDocument)?.bytes != bytes }
        return try target.change(wait, channels: [], draft: { nil as Bool? }) { _ in
            let present = try target.read(name, maximumBytes: Self.largestDocument)
            if present?.bytes == bytes { return false }
            try requireForward(of: name, to: bytes)
            if Part(of: name) == .newest {
                try FeedRecalls(in: target).requireManifest(ManifestFormat.parse(bytes).claims.version)
            }
            try target.replace(name, with: bytes, version: present?.version)
            return true
        }
    }

    /// Throws if devices of the target would refuse the file, or if it is older than theirs.
    private func requireForward(of name: String, to bytes: [UInt8]) throws {
        guard let present = try target.read(name, maximumBytes: Self.largestDocument)?.bytes, present != bytes else {
            return
        }
        if Part(of: name) == .newest { return try requireForward(present, to: bytes) }
        guard let before = try Self.number(of: name, present), let next = try Self.number(of: name, bytes) else {
            return
        }
        // Two channel files with one sequence come from publishers that did not see each other's change.
        if Part(of: name) == .channel ? before < next : before <= next { return }
        throw goesBack(name, before: "\(before)", next: "\(next)")
    }

    /// Throws if `manifest.json` would go back to a lower version, unless the source has the higher release and was
    /// changed to offer the lower one.
    private func requireForward(_ present: [UInt8], to next: [UInt8]) throws {
        guard let before = try? ManifestFormat.parse(present).claims.version,
            let next = try? ManifestFormat.parse(next).claims.version, next < before,
            try ReleaseFeed.published(before, in: source) == nil
        else { return }
        throw goesBack(ReleaseFeed.manifestName, before: "\(before)", next: "\(next)")
    }

    private func goesBack(_ name: String, before: String, next: String) -> UpdateFailure {
        UpdateFailure(
            .rollbackAttempt, subject: "\(target.address)/\(name)",
            "\(target.address)/\(name) is at \(before), and that of \(source.address) at \(next). Devices never go back, so copy in the other "
                + "direction, or from a newer feed.")
    }

    /// Returns the number by which devices order versions of the file; nil for a file without one.
    private static func number(of name: String, _ bytes: [UInt8]) throws -> Int? {
        switch Part(of: name) {
        case .channel: try ChannelFormat.document(in: bytes).sequence
        case .trust: try TrustRootFormat.parse(bytes).claims.version
        default: nil
        }
    }
}
