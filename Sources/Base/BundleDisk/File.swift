import CLinux
import CLibrary

/// An open regular file. It is closed with its last reference.
package final class File: Sendable {
    let descriptor: Int32
    /// The path for messages.
    package let path: String

    init(adopting descriptor: Int32, path: String) {
        self.descriptor = descriptor
        self.path = path
    }

    /// Duplicates the descriptor of a directory, for locking.
    init(duplicating directory: Directory) throws(DiskError) {
        descriptor = try checked(fcntl(directory.descriptor, F_DUPFD_CLOEXEC, 0), to: "open", at: directory.path)
        path = directory.path
    }

    deinit { close(descriptor) }

    /// Opens an existing regular file by an ordinary path. It follows links.
    package static func open(reading path: String) throws(DiskError) -> File {
        let file = File(
            adopting: try checked(CLibrary.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), to: "open", at: path),
            path: path
        )
        try file.requireRegular()
        return file
    }

    /// Creates a file in memory, for functions that read files.
    package static func inMemory(_ bytes: [UInt8], named name: String) throws(DiskError) -> File {
        let file = File(adopting: try checkedNegative(clinux_memory_file("page"), to: "create", at: name), path: name)
        try file.write(bytes)
        return file
    }

    /// Reads a file, or a pipe up to its end, by an ordinary path; `-` is the standard input. Throws if there are more
    /// than `maximumBytes` bytes. `inspect` is called with the open file before it is read.
    package static func contents(
        ofArgument path: String, maximumBytes: Int, _ inspect: (File, _ isPipe: Bool) throws -> Void = { _, _ in }
    ) throws -> [UInt8] {
        // The standard input cannot be opened by name if it is a socket or another user's pipe.
        let isInput = path == "-" || path == "/dev/stdin"
        let descriptor = isInput ? fcntl(0, F_DUPFD_CLOEXEC, 0) : CLibrary.open(path, O_RDONLY | O_CLOEXEC)
        let file = File(adopting: try checked(descriptor, to: "open", at: path), path: path)
        let kind = try file.status().st_mode & S_IFMT
        let isPipe = kind == S_IFIFO || kind == S_IFCHR || kind == S_IFSOCK
        if !isPipe { try file.requireRegular() }
        try inspect(file, isPipe)
        return isPipe ? try file.readPipe(maximumBytes: maximumBytes) : try file.readAll(maximumBytes: maximumBytes)
    }

    private func readPipe(maximumBytes: Int) throws(DiskError) -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = CLibrary.read(descriptor, &chunk, chunk.count)
            if count < 0 && errno == EINTR { continue }
            if count < 0 && errno == EAGAIN {
                // Another program that shares the pipe can have made it non-blocking.
                var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                _ = poll(&waiting, 1, -1)
                continue
            }
            if try checked(count, to: "read", at: path) == 0 { return bytes }
            bytes += chunk[..<count]
            if bytes.count > maximumBytes { throw DiskError("read", at: path, code: EOVERFLOW) }
        }
    }

    /// Opens a file by an ordinary path for appending, and creates it with mode 0640 if it is missing. It also opens
    /// devices such as `/dev/null`.
    package static func open(appending path: String) throws(DiskError) -> File {
        let flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK
        return File(adopting: try checked(CLibrary.open(path, flags, 0o640), to: "open", at: path), path: path)
    }

    /// Whether the path exists, as an entry of any kind.
    package static func exists(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    /// Creates a file by an ordinary path, which must not exist, and syncs it.
    ///
    /// After an interruption at any point, the file is complete or does not exist. The next call removes the leftover
    /// `PATH.new`.
    package static func write(_ bytes: [UInt8], to path: String, mode: UInt32) throws(DiskError) {
        let slash = path.lastIndex(of: "/")
        let folder = try Directory.open(slash.map { String(path[...$0]) } ?? ".")
        let name = slash.map { String(path[path.index(after: $0)...]) } ?? path
        try folder.createFileAtomically(name, with: bytes, mode: mode)
    }

    package func permissions() throws(DiskError) -> UInt32 { try status().st_mode & 0o7777 }

    package func setPermissions(_ mode: UInt32) throws(DiskError) {
        _ = try checked(fchmod(descriptor, mode), to: "change", at: path)
    }

    /// The number of names of the file.
    package func links() throws(DiskError) -> Int { Int(try status().st_nlink) }

    /// The user ID of the owner.
    package func owner() throws(DiskError) -> UInt32 { try status().st_uid }

    package func size() throws(DiskError) -> Int { Int(try status().st_size) }

    func status() throws(DiskError) -> stat {
        var status = stat()
        _ = try checked(fstat(descriptor, &status), to: "examine", at: path)
        return status
    }

    /// Throws unless the file is regular: reading a FIFO would block, and a device has no end.
    func requireRegular() throws(DiskError) {
        if try status().st_mode & S_IFMT != S_IFREG { throw DiskError("read", at: path, code: EINVAL) }
    }

    /// Reads up to `buffer.count` bytes at `offset`. Returns less only at the end of the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) throws(DiskError) -> Int {
        var done = 0
        while done < buffer.count {
            let count = pread(
                descriptor, buffer.baseAddress.map { $0 + done }, buffer.count - done, off_t(offset + done))
            if count < 0 && errno == EINTR { continue }
            if try checked(count, to: "read", at: path) == 0 { break }
            done += count
        }
        return done
    }

    /// Calls `body` with each block of the file in order. Returns the number of bytes.
    package func forEachBlock(_ body: (UnsafeRawBufferPointer) throws -> Void) throws -> Int {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 4096)
        defer { buffer.deallocate() }
        var offset = 0
        while true {
            let count = try read(into: buffer, at: offset)
            if count == 0 { return offset }
            try body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            offset += count
        }
    }

    /// Writes at the current position.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(DiskError) {
        try writeAll(bytes, to: descriptor, at: path)
    }

    /// Writes at the current position.
    package func write(_ bytes: [UInt8]) throws(DiskError) {
        try bytes.withUnsafeBufferPointer { buffer throws(DiskError) in try write(UnsafeRawBufferPointer(buffer)) }
    }

    /// Truncates the file to `offset` and continues to write there.
    package func truncate(to offset: Int) throws(DiskError) {
        _ = try checked(ftruncate(descriptor, off_t(offset)), to: "truncate", at: path)
        _ = try checked(lseek(descriptor, off_t(offset), SEEK_SET), to: "seek", at: path)
    }

    package func sync() throws(DiskError) {
        _ = try checked(fsync(descriptor), to: "sync", at: path)
    }

    /// Returns the whole file. Throws if it has more than `maximumBytes` bytes. Omit the limit only for local files whose
    /// size was checked before.
    package func readAll(maximumBytes: Int = .max) throws(DiskError) -> [UInt8] {
        let size = try size()
        if size > maximumBytes { throw DiskError("read", at: path, code: EOVERFLOW) }
        return try head(size)
    }

    /// Returns the first `count` bytes, or fewer if the file is shorter.
    package func head(_ count: Int) throws(DiskError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let found = try bytes.withUnsafeMutableBufferPointer { buffer throws(DiskError) in
            try read(into: UnsafeMutableRawBufferPointer(buffer), at: 0)
        }
        bytes.removeLast(count - found)
        return bytes
    }

    /// Whether both files have the same content. The buffers are scratch space.
    package func hasSameContent(
        as other: File, scratch buffer: UnsafeMutableRawBufferPointer, and otherBuffer: UnsafeMutableRawBufferPointer
    ) throws(DiskError) -> Bool {
        let size = try size()
        if try other.size() != size { return false }
        let step = min(buffer.count, otherBuffer.count)
        var offset = 0
        while offset < size {
            let ours = UnsafeMutableRawBufferPointer(rebasing: buffer[..<min(step, size - offset)])
            let theirs = UnsafeMutableRawBufferPointer(rebasing: otherBuffer[..<ours.count])
            guard try read(into: ours, at: offset) == ours.count, try other.read(into: theirs, at: offset) == ours.count
            else { return false }
            if let left = ours.baseAddress, let right = theirs.baseAddress, memcmp(left, right, ours.count) != 0 {
                return false
            }
            offset += ours.count
        }
        return true
    }

    /// Calls `body` with the descriptor, which it must not close.
    package func withDescriptor<Answer>(_ body: (Int32) throws -> Answer) rethrows -> Answer {
        try body(descriptor)
    }
}

func writeAll(
    _ bytes: UnsafeRawBufferPointer, to descriptor: Int32, at path: @autoclosure () -> String
) throws(DiskError) {
    var done = 0
    while done < bytes.count {
        let count = write(descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done)
        if count < 0 && errno == EINTR { continue }
        done += try checked(count, to: "write", at: path())
    }
}
