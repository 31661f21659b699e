import CLinux
import Glibc

/// An open regular file. Closed when the last reference goes.
package final class File: Sendable {
    let descriptor: Int32
    /// For messages.
    package let path: String

    init(adopting descriptor: Int32, path: String) {
        self.descriptor = descriptor
        self.path = path
    }

    /// A descriptor of its own for a directory's open file description, for locking.
    init(duplicating directory: Directory) throws(DiskError) {
        descriptor = try checked(fcntl(directory.descriptor, F_DUPFD_CLOEXEC, 0), "open", directory.path)
        path = directory.path
    }

    deinit { close(descriptor) }

    /// Opens an existing regular file by an ordinary path; links are followed, as for any argument of a command.
    package static func open(reading path: String) throws(DiskError) -> File {
        let file = File(
            adopting: try checked(Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), "open", path), path: path)
        try file.requireRegular()
        return file
    }

    /// A file that no disk has, for readers that want one.
    package static func inMemory(_ bytes: [UInt8], named name: String) throws(DiskError) -> File {
        let file = File(adopting: try checkedNegative(clinux_memory_file("page"), "create", name), path: name)
        try bytes.withUnsafeBytes { buffer in
            Result { () throws(DiskError) in try file.write(buffer) }
        }.get()
        return file
    }

    /// The bytes at an ordinary path: of a file, or of a pipe up to its end; `-` is standard input. Refuses more than `maximumBytes`.
    /// `file` is told what was opened before it is read.
    package static func contents(
        ofArgument path: String, maximumBytes: Int, _ inspect: (File, _ isPipe: Bool) throws -> Void = { _, _ in }
    ) throws -> [UInt8] {
        // Opening it anew by name fails for a socket, and for a pipe that another user has made.
        let isInput = path == "-" || path == "/dev/stdin"
        let descriptor = isInput ? fcntl(0, F_DUPFD_CLOEXEC, 0) : Glibc.open(path, O_RDONLY | O_CLOEXEC)
        let file = File(adopting: try checked(descriptor, "open", path), path: path)
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
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0 && errno == EINTR { continue }
            if count < 0 && errno == EAGAIN {
                // Another program that shares it may have made it non-blocking.
                var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                _ = poll(&waiting, 1, -1)
                continue
            }
            if try checked(count, "read", path) == 0 { return bytes }
            bytes += chunk[..<count]
            if bytes.count > maximumBytes { throw DiskError("read", path, code: EOVERFLOW) }
        }
    }

    /// Opens a file by an ordinary path to write behind what is in it, creating it (mode 0640) where it is missing; a device will do,
    /// `/dev/null` above all.
    package static func open(appending path: String) throws(DiskError) -> File {
        let flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK
        return File(adopting: try checked(Glibc.open(path, flags, 0o640), "open", path), path: path)
    }

    /// Whether anything, of whatever kind, has this ordinary path.
    package static func exists(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    /// Creates the file at an ordinary path, which must not exist, with exactly `bytes`, durably.
    package static func write(_ bytes: [UInt8], to path: String, mode: UInt32) throws(DiskError) {
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
        let file = File(adopting: try checked(Glibc.open(path, flags, mode), "create", path), path: path)
        try bytes.withUnsafeBytes { buffer in
            Result { () throws(DiskError) in try file.write(buffer) }
        }.get()
        try file.sync()
    }

    /// Permission bits.
    package func permissions() throws(DiskError) -> UInt32 { try status().st_mode & 0o7777 }

    /// The user whose file it is.
    package func owner() throws(DiskError) -> UInt32 { try status().st_uid }

    /// Bytes now in the file.
    package func size() throws(DiskError) -> Int {
        Int(try status().st_size)
    }

    func status() throws(DiskError) -> stat {
        var status = stat()
        _ = try checked(fstat(descriptor, &status), "examine", path)
        return status
    }

    /// Refuses anything that is not a regular file: a FIFO would hang its reader, a device would never end.
    func requireRegular() throws(DiskError) {
        if try status().st_mode & S_IFMT != S_IFREG { throw DiskError("read", path, code: EINVAL) }
    }

    /// Reads at most `buffer.count` bytes at `offset`; fewer only at the end of the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) throws(DiskError) -> Int {
        var done = 0
        while done < buffer.count {
            let count = pread(
                descriptor, buffer.baseAddress.map { $0 + done }, buffer.count - done, off_t(offset + done))
            if count < 0 && errno == EINTR { continue }
            if try checked(count, "read", path) == 0 { break }
            done += count
        }
        return done
    }

    /// Calls `body` with the file's bytes from its start, block by block; returns how many there were.
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

    /// Appends at the file's current position.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(DiskError) {
        try writeAll(bytes, to: descriptor, path)
    }

    /// Moves the position to `offset` and cuts the file there.
    package func truncate(to offset: Int) throws(DiskError) {
        _ = try checked(ftruncate(descriptor, off_t(offset)), "truncate", path)
        _ = try checked(lseek(descriptor, off_t(offset), SEEK_SET), "seek", path)
    }

    /// Forces the file's bytes to the disk.
    package func sync() throws(DiskError) {
        _ = try checked(fsync(descriptor), "sync", path)
    }

    /// The whole file, refusing one of more than `maximumBytes`; without it, only for a file that is here already, in the size that
    /// was accepted.
    package func readAll(maximumBytes: Int = .max) throws(DiskError) -> [UInt8] {
        let size = try size()
        if size > maximumBytes { throw DiskError("read", path, code: EOVERFLOW) }
        var bytes = [UInt8](repeating: 0, count: size)
        let result = bytes.withUnsafeMutableBytes { buffer in
            Result { () throws(DiskError) in try read(into: buffer, at: 0) }
        }
        bytes.removeLast(size - (try result.get()))
        return bytes
    }

    /// The first `count` bytes; fewer where the file is shorter.
    package func head(_ count: Int) throws(DiskError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let got = try bytes.withUnsafeMutableBytes { buffer in
            Result { () throws(DiskError) in try read(into: buffer, at: 0) }
        }.get()
        return Array(bytes[..<got])
    }

    /// Whether both files hold the same bytes; reads them through the two buffers.
    package func hasSameContent(
        as other: File, _ buffer: UnsafeMutableRawBufferPointer, _ otherBuffer: UnsafeMutableRawBufferPointer
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

    /// Lends the descriptor to a C library for the time of the call; it stays owned by this value.
    package func withDescriptor<Answer>(_ body: (Int32) throws -> Answer) rethrows -> Answer {
        try body(descriptor)
    }
}

func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32, _ path: @autoclosure () -> String)
    throws(DiskError)
{
    var done = 0
    while done < bytes.count {
        let count = write(descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done)
        if count < 0 && errno == EINTR { continue }
        done += try checked(count, "write", path())
    }
}
