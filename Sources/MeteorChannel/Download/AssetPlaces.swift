import BundleCore
import BundleDisk

/// The disk's side of a run: the tree, the parts and the journal.
///
/// Sendable, unchecked: made by the run, used by its writing thread only.
final class AssetPlaces: @unchecked Sendable {
    /// Bytes between two looks at the room left.
    private static let stride = 4 << 20

    private let folders: TreeFolders
    private let parts: Directory
    private let journal: AssetJournal
    private let requireRoom: @Sendable () throws -> Void
    private let report: @Sendable (DownloadProgress) -> Void
    private var progress = DownloadProgress()
    private var unchecked = 0

    init(
        tree: Directory, attempt: Directory, requireRoom: @escaping @Sendable () throws -> Void,
        report: @escaping @Sendable (DownloadProgress) -> Void
    ) throws {
        folders = TreeFolders(root: tree)
        parts = try attempt.directory(creating: AssetJournal.parts)
        journal = try AssetJournal(in: attempt)
        self.requireRoom = requireRoom
        self.report = report
    }

    // MARK: Whole files

    /// Writes a file that is complete and accepted: aside, then to its place in one step.
    func place(_ bytes: [UInt8], of job: AssetJob, _ receipt: AssetReceipt) throws {
        try requireRoom()
        let name = randomName("whole-")
        do {
            try bytes.withUnsafeBytes { buffer in
                Result { () throws(DiskError) in try parts.createFile(name, buffer) }
            }.get()
            try put(name, of: job, receipt)
        } catch {
            try? parts.removeFile(name)
            throw error
        }
    }

    /// Gives a part that is complete and accepted its place.
    func place(_ part: AssetPart, of job: AssetJob, _ receipt: AssetReceipt) throws {
        try put(part.name, of: job, receipt)
    }

    private func put(_ name: String, of job: AssetJob, _ receipt: AssetReceipt) throws {
        try parts.rename(name, to: try folders.folder(of: job.file), as: job.file.name)
        try journal.append(
            .complete(key: JournalText(job.key), CompleteAsset(file: job.file, receipt: receipt)))
        progress.files += 1
        report(progress)
    }

    // MARK: Parts

    /// Begins a part, and notes it where it can be gone on with.
    func beginPart(of job: AssetJob, validator: String?) throws -> AssetPart {
        try requireRoom()
        let name = randomName("part-")
        let part = AssetPart(name: name, file: try parts.file(creating: name), validator: validator)
        try note(part, of: job)
        return part
    }

    /// Makes an earlier attempt's part one of ours; nil where that cannot be done.
    func adopt(_ unfinished: UnfinishedAsset, for job: AssetJob) throws -> AssetPart? {
        let name = randomName("part-")
        do {
            try unfinished.folder.rename(unfinished.name, to: parts, as: name)
        } catch {
            if [.missing, .crossesDevice].contains(error.kind) { return nil }
            throw error
        }
        let file = try parts.file(appending: name)
        try file.truncate(to: try file.size())
        let part = AssetPart(name: name, file: file, validator: unfinished.validator)
        try note(part, of: job)
        return part
    }

    private func note(_ part: AssetPart, of job: AssetJob) throws {
        guard let validator = part.validator else { return }
        try journal.append(
            .part(key: JournalText(job.key), AssetPartRecord(name: part.name, validator: validator)))
    }

    func append(_ bytes: UnsafeRawBufferPointer, to part: AssetPart) throws {
        unchecked += bytes.count
        if unchecked >= Self.stride {
            try requireRoom()
            unchecked = 0
        }
        try part.file.write(bytes)
    }

    func remove(_ part: AssetPart) throws { try parts.removeFile(part.name) }

    // MARK: Progress

    func received(_ count: Int) {
        progress.bytes += count
        report(progress)
    }
}
