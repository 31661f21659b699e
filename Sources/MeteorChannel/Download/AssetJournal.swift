import BundleDisk

/// The journal of one attempt's downloads, which lies beside its tree and only grows. Used by one thread at a time.
final class AssetJournal {
    /// Its name in the attempt's folder.
    static let name = "assets.journal"
    /// The folder of unfinished files beside it.
    static let parts = "parts"

    private let file: File

    /// Opens it for adding lines.
    init(in folder: Directory) throws {
        file = try folder.file(appending: Self.name)
        let size = try file.size()
        try file.truncate(to: size)
        // The last line may be torn; the next one must not become a part of it.
        if size > 0 { try write("\n") }
    }

    func append(_ record: JournalRecord) throws { try write(record.line) }

    private func write(_ text: String) throws {
        var text = text
        try text.withUTF8 { bytes in
            Result { () throws(DiskError) in try file.write(UnsafeRawBufferPointer(bytes)) }
        }.get()
    }
}
