import BundleDisk
import Glibc
import NIOCore

/// A descriptor of an open file that several answers may send from at once; closed with its last reference.
final class OpenFile: Sendable {
    let handle: NIOFileHandle

    init(duplicating file: File) throws {
        let descriptor = try file.withDescriptor { descriptor in
            let duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
            if duplicate < 0 { throw DiskError("open", file.path, code: errno) }
            return duplicate
        }
        handle = NIOFileHandle(_deprecatedTakingOwnershipOfDescriptor: descriptor)
    }

    deinit { try? handle.close() }
}

/// What the kernel says about an open file.
struct FileFacts {
    let size: Int
    /// An entity tag, with its quotes, that another file and other bytes do not have: a file is replaced by rename.
    let tag: [UInt8]

    init(of file: File) throws {
        let status = try file.withDescriptor { descriptor in
            var status = stat()
            if fstat(descriptor, &status) < 0 { throw DiskError("examine", file.path, code: errno) }
            return status
        }
        size = Int(status.st_size)
        let stamp = UInt64(clamping: status.st_mtim.tv_sec) &* 1_000_000_000 &+ UInt64(clamping: status.st_mtim.tv_nsec)
        let facts = [UInt64(status.st_ino), UInt64(clamping: size), stamp].map { String($0, radix: 16) }
        tag = Array("\"\(facts.joined(separator: "-"))\"".utf8)
    }
}
