import BundleValues
import BundleCore
import BundleDisk
import BundleTransport
import Synchronization

/// The progress of a run.
struct DownloadProgress: Sendable, Equatable {
    /// The body bytes from the network.
    var bytes = 0
    /// The files in the tree.
    var files = 0
}

/// The tree, the parts and the journal of a run.
///
/// Unchecked Sendable: only the writing thread uses folders and journal, and a mutex guards the progress.
final class AssetPlaces: DownloadPlaces, @unchecked Sendable {
    private let jobs: [AssetJob]
    private let folders: TreeFolders
    private let parts: Directory
    private let journal: AssetJournal
    private let earlier: InterruptedDownload?
    private let room: @Sendable () throws -> Void
    private let report: @Sendable (DownloadProgress) -> Void
    private let progress = Mutex(DownloadProgress())

    init(
        _ jobs: [AssetJob], tree: Directory, attempt: Directory, earlier: InterruptedDownload?,
        requireRoom: @escaping @Sendable () throws -> Void, report: @escaping @Sendable (DownloadProgress) -> Void
    ) throws {
        self.jobs = jobs
        folders = TreeFolders(root: tree)
        parts = try attempt.directory(creating: AssetJournal.parts)
        journal = try AssetJournal(in: attempt)
        self.earlier = earlier
        room = requireRoom
        self.report = report
    }

    func hasEarlierPart(of job: Int) throws -> Bool { try earlier?.unfinished(key: jobs[job].key) != nil }

    /// Moves the part of an earlier attempt into this one.
    func earlierPart(of job: Int) throws -> PartFile? {
        guard let unfinished = try earlier?.unfinished(key: jobs[job].key) else { return nil }
        let name = randomName("part-")
        do {
            try unfinished.folder.rename(unfinished.name, to: parts, as: name)
        } catch {
            if [.missing, .crossesDevice].contains(error.kind) { return nil }
            throw error
        }
        let part = try PartFile(resuming: name, in: parts, validator: unfinished.validator)
        try record(part, of: job)
        return part
    }

    func beginPart(of job: Int, validator: String?) throws -> PartFile {
        let name = randomName("part-")
        let part = PartFile(name: name, file: try parts.file(creating: name), validator: validator)
        try record(part, of: job)
        return part
    }

    private func record(_ part: PartFile, of job: Int) throws {
        guard let validator = part.validator else { return }
        try journal.append(
            .part(key: JournalText(jobs[job].key), AssetPartRecord(name: part.name, validator: validator)))
    }

    func place(_ part: PartFile, of job: Int, _ receipt: DownloadReceipt) throws {
        let job = jobs[job]
        try parts.rename(part.name, to: try folders.folder(of: job.file), as: job.file.name)
        try journal.append(.complete(key: JournalText(job.key), CompleteAsset(file: job.file, receipt: receipt)))
        advance { $0.files += 1 }
    }

    func remove(_ part: PartFile) throws { try parts.removeFile(part.name) }

    func requireRoom() throws { try room() }

    func received(_ count: Int, reached: Int) {
        if count > 0 { advance { $0.bytes += count } }
    }

    private func advance(_ change: (inout DownloadProgress) -> Void) {
        progress.withLock { progress in
            change(&progress)
            report(progress)
        }
    }
}
