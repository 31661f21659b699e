public import BundleCore
public import BundleDisk

/// Fetches anything into a file, for looking at it.
public enum SpoolFile {
    /// The body of `url`, at most `maximumBytes`, as a file in `folder`.
    public static func fetch(
        _ url: FetchURL, with fetcher: any Fetcher, maximumBytes: Int, into folder: Directory
    ) async throws -> File {
        let file = try folder.file(creating: randomName("spool-"))
        var sink = Sink(file: file)
        _ = try await fetcher.fetch(FetchRequest(url: url, maximumBytes: maximumBytes), into: &sink)
        return file
    }

    private struct Sink: FetchSink {
        let file: File
        mutating func begin(_ head: FetchHead) {}
        mutating func receive(_ bytes: UnsafeRawBufferPointer) throws { try file.write(bytes) }
    }
}
