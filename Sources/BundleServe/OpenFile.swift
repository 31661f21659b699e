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
