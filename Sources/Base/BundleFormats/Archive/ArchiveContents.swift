package import BundleArchive
package import BundleDisk
package import BundleSigning
package import BundleValues

/// Applies a delta, for installer, verifier and publisher.
package enum DeltaContents {
    package static func walk<Sink: EntrySink>(
        _ file: File, applying delta: DeltaList.Delta, on base: DeltaTree, of manifest: Manifest, limits: ArchiveLimits,
        into sink: Sink
    ) throws -> (ArchiveWalk<Sink>.Summary, Sink) {
        do {
            let bounds = DeltaBounds(
                memory: min(delta.memory, limits.deltaMemory), files: min(manifest.fileCount ?? 0, limits.entries),
                bytes: min(manifest.installedSize ?? 0, limits.installedBytes), deadline: .now + limits.time)
            let walk = try ArchiveWalk(
                try reader(file, on: base, bounds: bounds), limits: limits.lowered(by: manifest),
                expectedFiles: manifest.fileCount, requiring: manifest.requiredFiles, into: sink)
            return try walk.run()
        } catch {
            sink.abandon()
            throw error
        }
    }

    private static func reader(_ file: File, on base: DeltaTree, bounds: DeltaBounds) throws -> DeltaReader {
        do throws(ArchiveFailure) {
            return try DeltaReader(file, on: base, within: bounds)
        } catch {
            throw error.refusal()
        }
    }

    /// Returns the content digest. Throws if it is not the signed one, and names the damaged file if the base is the
    /// cause.
    package static func require<Sink>(
        _ summary: ArchiveWalk<Sink>.Summary, on base: DeltaTree, of manifest: Manifest
    ) throws -> SHA256Digest {
        if let content = summary.contentSha256, content == manifest.contentSha256 {
            try ArchiveContents.require(summary, of: manifest)
            return content
        }
        if let path = try base.firstDamage() { throw ArchiveFailure.damagedBase(path.string).refusal() }
        throw UpdateFailure(
            .digestMismatch, subject: "contentSha256",
            "The delta does not produce the signed content of \(manifest.version). Make it again.")
    }
}

/// Walks an archive, for installer, verifier and publisher.
package enum ArchiveContents {
    package static func walk<Sink: EntrySink>(
        _ file: File, size: Int, expectedFiles: Int?, requiring required: [BundlePath] = [.index],
        limits: ArchiveLimits,
        into sink: Sink
    ) throws -> (ArchiveWalk<Sink>.Summary, Sink) {
        do {
            let format = ArchiveFormat(sniffing: try file.head(4))
            return try file.withDescriptor { descriptor in
                let reader = try reader(descriptor, size: size, format: format, limits)
                let walk = try ArchiveWalk(
                    reader, limits: limits, expectedFiles: expectedFiles, requiring: required, into: sink)
                return try walk.run()
            }
        } catch {
            sink.abandon()
            throw error
        }
    }

    private static func reader(
        _ descriptor: Int32, size: Int, format: ArchiveFormat, _ limits: ArchiveLimits
    ) throws -> ArchiveReader {
        do throws(ArchiveFailure) {
            return try ArchiveReader(
                descriptor: descriptor, size: size, format: format, limits: limits.decoding())
        } catch {
            throw error.refusal()
        }
    }

    /// Throws `sizeMismatch` if the number of files or their size is not the signed one.
    package static func require<Sink>(_ summary: ArchiveWalk<Sink>.Summary, of manifest: Manifest) throws {
        let version = manifest.version.description
        if let expected = manifest.fileCount, expected != summary.fileCount {
            throw UpdateFailure(
                .sizeMismatch, subject: "fileCount",
                "The archive of \(version) has \(counted(summary.fileCount, "file")), but \(expected) were signed. Publish it again."
            )
        }
        if let expected = manifest.installedSize, expected != summary.installedSize {
            throw UpdateFailure(
                .sizeMismatch, subject: "installedSize",
                "The files of \(version) have \(summary.installedSize) bytes, but \(expected) were signed. Publish it again."
            )
        }
    }

    /// Throws `digestMismatch` if `content`, the digest of the canonical tar, is not the signed one.
    package static func require(_ content: SHA256Digest, in file: File, of manifest: Manifest) throws {
        if let expected = manifest.contentSha256, expected != content, try !isDigest(expected, ofTarIn: file) {
            throw UpdateFailure(
                .digestMismatch, subject: "contentSha256",
                "The content of \(manifest.version) is \(content.hex), but \(expected.hex) was signed. Publish it again."
            )
        }
    }

    /// Returns whether the tar in `file`, as it is, has the signed content digest.
    ///
    /// The contract fixes the values of a canonical tar but not its bytes, because tools fill unused header fields in
    /// different ways. If another tool wrote the tar, the digest of that tar is accepted too; the digest of the archive
    /// was signed as well.
    private static func isDigest(_ expected: SHA256Digest, ofTarIn file: File) throws -> Bool {
        let format = ArchiveFormat(sniffing: try file.head(4))
        var hasher = try SHA256Hasher()
        try file.withDescriptor { descriptor in
            do {
                try DecodedArchive.forEachBlock(descriptor: descriptor, format: format) { try hasher.update($0) }
            } catch let failure as ArchiveFailure {
                throw failure.refusal()
            }
        }
        return try hasher.finish() == expected
    }
}
