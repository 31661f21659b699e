package import ArchiveSource
import BundleCore
package import BundleDisk
import BundleSigning
import BundleValues

/// Files of a feed brought from one place to another.
package enum FeedCopy {
    /// Brings the file `name`, by way of `scratch`; returns false where there is none, or where the target has one of that name
    /// already. Throws `sizeMismatch` if it has more than `maximumBytes`.
    package static func bring(
        _ name: String, maximumBytes: Int, from source: any FeedPlace, to target: any FeedPlace, by scratch: Directory
    ) throws -> Bool {
        let part = randomName("part-")
        let file = try scratch.file(creating: part)
        defer { try? scratch.removeFile(part) }
        guard try source.stream(name, maximumBytes: maximumBytes, { try file.write($0) }) else { return false }
        return try target.create(name, .file(file))
    }

    /// Brings the document `name` and, where it is a manifest, the archive that it names, into the folder `scratch`. No file may have
    /// more bytes than its document says, or than `limits` allow.
    package static func bringRelease(
        _ name: String, from source: any FeedPlace, into scratch: Directory, _ limits: ArchiveLimits
    ) throws {
        let target = FeedFolder(scratch.path)
        let bring = { (name: String, maximumBytes: Int) in
            try FeedCopy.bring(name, maximumBytes: maximumBytes, from: source, to: target, by: scratch)
        }
        guard try bring(name, largestDocument) else { throw missing(name, in: source) }
        guard let bytes = try target.read(name, maximumBytes: largestDocument)?.bytes,
            let manifest = try? ManifestFormat.parse(bytes).claims, !manifest.url.contains(":")
        else { return }
        let folder = name.split(separator: "/").dropLast().joined(separator: "/")
        let archive = folder.isEmpty ? manifest.url : "\(folder)/\(manifest.url)"
        let size = min(manifest.size ?? limits.archiveBytes, limits.archiveBytes)
        guard try bring(archive, size) else { throw missing(archive, in: source) }
    }

    /// The longest document that devices read.
    private static let largestDocument = ChannelFormat.maximumBytes

    static func missing(_ name: String, in place: any FeedPlace) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: "\(place.address)/\(name)",
            "There is no \(UntrustedName.display(name)) at \(place.address): check the address.")
    }
}

/// Copies a whole feed to another place. The files that documents name come before them, so devices can follow the target all the
/// time. What devices of the target would refuse is refused before the first file is copied.
package struct FeedTransfer {
    /// What came of it.
    package struct Report: Sendable {
        /// The files that were written, in order.
        package var written: [FeedEntry] = []
        /// How many were there already.
        package var present = 0
        /// The files that are none of a feed's, which are left out.
        package var foreign: [String] = []
    }

    /// What is brought, in order. A pure rule.
    enum Part: Int, Comparable {
        case content, list, manifest, root, copy, trust, hold, channel, newest

        static func < (one: Part, other: Part) -> Bool { one.rawValue < other.rawValue }

        /// Where the file `name` belongs; nil for one that is none of a feed's.
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
            // Before the document that it is about: no device sees that one without it.
            case ("channels", 2) where name.hasSuffix(".hold.json"): self = .hold
            case ("channels", 2) where isDocument: self = .channel
            case ("trust.json", 1): self = .trust
            case ("manifest.json", 1): self = .newest
            default: return nil
            }
        }

        /// Whether it is replaced, and is read before anything is listed.
        var isDocument: Bool { [.list, .trust, .hold, .channel, .newest].contains(self) }
    }

    private let source: any FeedPlace
    private let target: any FeedPlace
    private let isDryRun: Bool

    /// From `source` to `target`.
    package init(from source: any FeedPlace, to target: any FeedPlace, isDryRun: Bool) {
        (self.source, self.target, self.isDryRun) = (source, target, isDryRun)
    }

    /// Brings what is missing or different; whoever is stopped runs it again.
    package func run(_ wait: FeedWait) throws -> Report {
        try source.requireThere()
        // Before the listing: what they name is in it then.
        let documents = try source.list("").filter { Part(of: $0.name)?.isDocument == true }.compactMap { entry in
            try source.read(entry.name, maximumBytes: Self.largestDocument).map { (entry: entry, bytes: $0.bytes) }
        }
        if !documents.contains(where: { [.channel, .newest].contains(Part(of: $0.entry.name)) }) {
            throw UpdateFailure(
                .configInvalid, subject: source.address,
                "\(source.address) has no manifest.json and no channel, so it is no feed: check the first address.")
        }
        try requireSameApplication(documents.map { ($0.entry.name, $0.bytes) })
        for document in documents { try requireForward(document.entry.name, document.bytes) }
        let listed = try source.list("").sorted { $0.name < $1.name }
        let all = listed.compactMap { entry in Part(of: entry.name).map { (part: $0, entry: entry) } }
        var present: Set<String> = []
        for (part, entry) in all where !part.isDocument {
            if try isPresent(entry) { present.insert(entry.name) }
        }
        if !isDryRun { try target.make() }
        let scratch = try TemporaryDirectory()
        var report = Report()
        report.foreign = listed.map(\.name).filter { Part(of: $0) == nil }
        for (part, entry) in all.sorted(by: { $0.part < $1.part }) {
            let isWritten: Bool
            if part.isDocument {
                guard let document = documents.first(where: { $0.entry.name == entry.name }) else { continue }
                isWritten = try put(document.bytes, entry.name, wait)
            } else if present.contains(entry.name) {
                isWritten = false
            } else {
                isWritten =
                    try isDryRun
                    || FeedCopy.bring(
                        entry.name, maximumBytes: entry.size, from: source, to: target, by: scratch.directory)
            }
            if isWritten { report.written.append(entry) } else { report.present += 1 }
        }
        return report
    }

    private static let largestDocument = 64 << 20

    /// Whether the target has the file, which is written once. Throws if it has another one of that name.
    private func isPresent(_ entry: FeedEntry) throws -> Bool {
        let present: SHA256Digest?
        do {
            present = try target.digest(of: entry.name, maximumBytes: entry.size)
        } catch  where UpdateFailure(error).code == .sizeMismatch {
            throw other(entry)
        }
        guard let present else { return false }
        if try source.holds(entry.name, present, size: entry.size) == true { return true }
        throw other(entry)
    }

    private func other(_ entry: FeedEntry) -> UpdateFailure {
        UpdateFailure(
            .versionExists, subject: entry.name,
            "\(target.address) has another \(UntrustedName.display(entry.name)) than \(source.address), and that file never changes. "
                + "Copy to another place, or remove it there.")
    }

    /// Refuses the feed of another application. A feed that names none may get one.
    private func requireSameApplication(_ documents: [(name: String, bytes: [UInt8])]) throws {
        let own = documents.compactMap { Self.application(of: $0.name, $0.bytes) }
        for entry in try target.list("") where Part(of: entry.name)?.isDocument == true {
            guard let bytes = try target.read(entry.name, maximumBytes: Self.largestDocument)?.bytes,
                let before = Self.application(of: entry.name, bytes), !own.contains(before)
            else { continue }
            throw UpdateFailure(
                .appMismatch, subject: "\(target.address)/\(entry.name)",
                "\(target.address) is the feed of \(UntrustedName.display(before)), and \(source.address) that of "
                    + "\(own.first.map { UntrustedName.display($0) } ?? "no named application"). Each application has a feed of its own: "
                    + "check both addresses.")
        }
    }

    /// The application that a document names; nil if it names none or cannot be read.
    private static func application(of name: String, _ bytes: [UInt8]) -> String? {
        switch Part(of: name) {
        case .channel: try? ChannelFormat.parse(ChannelFormat.envelope(parsing: bytes)).claims.appId
        case .trust: try? TrustRootFormat.parse(bytes).claims.appId
        case .newest: try? ManifestFormat.parse(bytes).claims.appId
        default: nil
        }
    }

    /// Puts a document in the place of what is there; false where it is the same.
    private func put(_ bytes: [UInt8], _ name: String, _ wait: FeedWait) throws -> Bool {
        if isDryRun { return try target.read(name, maximumBytes: Self.largestDocument)?.bytes != bytes }
        return try target.change(wait, channels: [], draft: { nil as Bool? }) { _ in
            let present = try target.read(name, maximumBytes: Self.largestDocument)
            if present?.bytes == bytes { return false }
            try requireForward(name, bytes)
            try target.replace(name, with: bytes, version: present?.version)
            return true
        }
    }

    /// Refuses a document that devices of the target would refuse, and one that is behind theirs.
    private func requireForward(_ name: String, _ bytes: [UInt8]) throws {
        guard let present = try target.read(name, maximumBytes: Self.largestDocument)?.bytes, present != bytes else {
            return
        }
        if Part(of: name) == .newest { return try requireForward(present, to: bytes) }
        guard let before = try Self.number(of: name, present), let next = try Self.number(of: name, bytes) else {
            return
        }
        // Two documents of one sequence were made by publishers who did not see each other.
        if Part(of: name) == .channel ? before < next : before <= next { return }
        throw goesBack(name, before: "\(before)", next: "\(next)")
    }

    /// Refuses a `manifest.json` of a lower version, unless the source has the higher release and so was made to offer another one.
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
            "\(target.address)/\(name) is at \(before), and that of \(source.address) at \(next). Devices never go back, so copy the other "
                + "way, or from a newer feed.")
    }

    /// The number by which devices tell what is later; nil for a document without one.
    private static func number(of name: String, _ bytes: [UInt8]) throws -> Int? {
        switch Part(of: name) {
        case .channel: try ChannelFormat.parse(ChannelFormat.envelope(parsing: bytes)).claims.sequence
        case .trust: try TrustRootFormat.parse(bytes).claims.version
        default: nil
        }
    }
}
