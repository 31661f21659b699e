import CLinux
import Glibc

extension Directory {
    /// One name of a directory, and what it is.
    package struct Entry: Sendable, Equatable {
        /// The kernel's bytes.
        package let name: [UInt8]
        /// What the name is, without following it.
        package let kind: Kind

        /// What a name is, as far as a listing tells.
        package enum Kind: Sendable { case file, directory, symbolicLink, other }
    }

    /// The names in this directory with their kinds, in no order, without `.` and `..`.
    package func entries() throws(DiskError) -> [Entry] {
        var entries: [Entry] = []
        try forEachName { name, type throws(DiskError) in
            let kind = try kind(ofType: type, name)
            let bytes = name.withUnsafeBytes { [UInt8]($0.dropLast()) }
            entries.append(Entry(name: bytes, kind: kind))
        }
        return entries
    }

    /// The names in this directory, in no order, without `.` and `..`, as the kernel's bytes.
    package func names() throws(DiskError) -> [[UInt8]] {
        try rawNames().map { $0.dropLast().map(UInt8.init(bitPattern:)) }
    }

    /// The names in this directory that are UTF-8, in no order. A store has no others.
    package func list() throws(DiskError) -> [String] {
        try names().compactMap { String(validating: $0, as: UTF8.self) }
    }

    /// The names, each with its terminating zero.
    func rawNames() throws(DiskError) -> [[CChar]] {
        var names: [[CChar]] = []
        try forEachName { name, _ in names.append(Array(name)) }
        return names
    }

    /// Some file systems do not say in a listing what a name is (`DT_UNKNOWN`); those are asked once more.
    func kind(ofType type: UInt8, _ name: ArraySlice<CChar>) throws(DiskError) -> Entry.Kind {
        switch Int(type == UInt8(DT_UNKNOWN) ? try examinedType(name) : type) {
        case Int(DT_REG): .file
        case Int(DT_DIR): .directory
        case Int(DT_LNK): .symbolicLink
        default: .other
        }
    }

    private func examinedType(_ name: ArraySlice<CChar>) throws(DiskError) -> UInt8 {
        var status = stat()
        let result = name.withUnsafeBufferPointer { bytes in
            bytes.baseAddress.map { fstatat(descriptor, $0, &status, AT_SYMLINK_NOFOLLOW) } ?? -1
        }
        _ = try checked(result, "examine", path)
        return UInt8(truncatingIfNeeded: (status.st_mode & S_IFMT) >> 12)
    }

    /// Calls `body` with each name, its terminating zero included, and its `d_type`.
    private func forEachName(_ body: (ArraySlice<CChar>, UInt8) throws(DiskError) -> Void) throws(DiskError) {
        var failure: Int32 = 0
        guard let stream = clinux_open_stream(descriptor, &failure) else {
            throw DiskError("list", path, code: failure)
        }
        defer { clinux_close_stream(stream) }
        var name = [CChar](repeating: 0, count: 256)
        var type: UInt8 = 0
        while true {
            let length = Int(try checkedNegative(clinux_read_entry(stream, &name, name.count, &type), "list", path))
            if length == 0 { return }
            try body(name[...length], type)
        }
    }
}
