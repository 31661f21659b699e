import CLinux
import CLibrary

/// Whole files.
extension Directory {
    /// Creates a file with these bytes. It does not sync the file.
    package func createFile(_ name: String, with bytes: UnsafeRawBufferPointer) throws(DiskError) {
        let file = try openBeneath(name, flags: O_WRONLY | O_CREAT | O_EXCL, to: "create", mode: 0o644)
        defer { close(file) }
        try writeAll(bytes, to: file, at: display(name))
    }

    /// Returns the bytes of a file, or nil if it does not exist. Throws if the file has more than `maximumBytes` bytes.
    package func contents(_ name: String, maximumBytes: Int) throws(DiskError) -> [UInt8]? {
        do {
            return try file(name).readAll(maximumBytes: maximumBytes)
        } catch  where error.kind == .missing {
            return nil
        }
    }

    /// Replaces a file atomically and durably: writes another file, syncs it, renames it and syncs the directory.
    ///
    /// After an interruption at any point, the file has the old or the new bytes.
    package func replaceFile(_ name: String, with bytes: [UInt8], mode: UInt32 = 0o644) throws(DiskError) {
        try writeAside(name, with: bytes, mode: mode) { aside throws(DiskError) in try rename(aside, to: name) }
    }

    /// Creates a file atomically and durably. Throws if it exists.
    ///
    /// After an interruption at any point, the file is complete or does not exist.
    package func createFileAtomically(_ name: String, with bytes: [UInt8], mode: UInt32) throws(DiskError) {
        try writeAside(name, with: bytes, mode: mode) { aside throws(DiskError) in try move(aside, to: self, as: name) }
    }

    /// Writes and syncs the file `name.new`, and syncs the directory after `publish` has renamed it.
    private func writeAside(
        _ name: String, with bytes: [UInt8], mode: UInt32, publish: (String) throws(DiskError) -> Void
    ) throws(DiskError) {
        let aside = name + ".new"
        try removeFile(aside)
        do throws(DiskError) {
            try createDurableFile(aside, with: bytes, mode: mode)
            try publish(aside)
        } catch {
            // If the removal fails too, the next call removes the file.
            try? removeFile(aside)
            throw error
        }
        try sync()
    }

    /// Replaces a file atomically without a sync, with exactly this mode. Readers see the old or the new file, but a
    /// power failure can lose it. It saves disk writes.
    package func replaceFileWithoutSync(_ name: String, with bytes: [UInt8], mode: UInt32) throws(DiskError) {
        let aside = name + ".new"
        try removeFile(aside)
        let file = try file(creating: aside, mode: mode)
        try file.write(bytes)
        _ = try checked(fchmod(file.descriptor, mode), to: "change", at: file.path)
        try rename(aside, to: name)
    }

    /// Creates a file with these bytes and syncs it. It does not sync the directory.
    package func createDurableFile(_ name: String, with bytes: [UInt8], mode: UInt32 = 0o644) throws(DiskError) {
        let file = try file(creating: name, mode: mode)
        try file.write(bytes)
        try file.sync()
    }

    /// Whether `name` is a file with exactly these bytes. `scratch` must be at least as long as `bytes`.
    package func holds(
        _ name: String, content bytes: UnsafeRawBufferPointer, scratch: UnsafeMutableRawBufferPointer
    ) throws(DiskError) -> Bool {
        let file = clinux_open_beneath(descriptor, name, O_RDONLY | O_NONBLOCK, 0)
        if file < 0 { return false }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size == bytes.count else {
            return false
        }
        guard let wanted = bytes.baseAddress, let found = scratch.baseAddress, bytes.count > 0 else { return true }
        guard read(file, found, bytes.count) == bytes.count else { return false }
        return memcmp(found, wanted, bytes.count) == 0
    }
}
