package import BundleArchive
package import BundleValues
package import BundleDisk

/// The entries of an archive, unverified, for a human reader.
package struct ArchiveListing: Sendable {
    /// The format, from the first bytes.
    package let format: ArchiveFormat
    /// The entries before the first unreadable entry.
    package let entries: [ArchiveEntry]
    /// The reason why an installation would refuse the archive; nil if it would accept it.
    package let refusal: ArchiveRejection?
    /// The origins that `index.html` declares; none if an installation would refuse the archive.
    package let origins: ReleaseOrigins

    /// Reads at most `limits.entries` entries.
    package static func read(_ file: File, limits: ArchiveLimits) throws -> ArchiveListing {
        let format = ArchiveFormat(sniffing: try file.head(4))
        var entries: [ArchiveEntry] = []
        let size = try file.size()
        file.withDescriptor { descriptor in
            let reader = try? ArchiveReader(
                descriptor: descriptor, size: size, format: format, limits: limits.decoding())
            guard let reader else { return }
            while entries.count < limits.entries, let entry = try? reader.nextEntry() { entries.append(entry) }
        }
        do {
            let origins = try ArchiveVerifier.walk(file, limits: limits)
            return ArchiveListing(format: format, entries: entries, refusal: nil, origins: origins)
        } catch let rejection as ArchiveRejection {
            return ArchiveListing(format: format, entries: entries, refusal: rejection, origins: ReleaseOrigins())
        }
    }
}

extension ArchiveEntry {
    /// The name in a printable form.
    package var shownName: String { name.map { UntrustedName.display($0) } ?? "(a name that is not UTF-8)" }
}

/// Downloads a URL into a file without verification.
package enum SpoolFile {
    /// Returns a new file in `folder` with the body of `url`, which may have at most `maximumBytes` bytes.
    package static func fetch(
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
