import CLinux
import CLibrary

extension Directory {
    package struct DirectoryEntry: Sendable, Equatable {
        /// The name in the bytes of the kernel.
        package let name: [UInt8]
        /// The kind of the entry itself; links are not followed.
        package let kind: Kind

        package enum Kind: Sendable { case file, directory, symbolicLink, other }
    }

    /// Returns the entries in no particular order, without `.` and `..`.
    package func entries() throws(DiskError) -> [DirectoryEntry] {
        var entries: [DirectoryEntry] = []
        try forEachName { name, type throws(DiskError) in
            let kind = try kind(ofType: type, name)
            let bytes = name.withUnsafeBytes { [UInt8]($0.dropLast()) }
            entries.append(DirectoryEntry(name: bytes, kind: kind))
        }
        return entries
    }

    /// Returns the names in the bytes of the kernel, in no particular order, without `.` and `..`.
    package func names() throws(DiskError) -> [[UInt8]] {
        try rawNames().map { $0.dropLast().map(UInt8.init(bitPattern:)) }
    }

    /// Returns the names that are UTF-8, in no particular order. A store has no others.
    package func list() throws(DiskError) -> [String] {
        try names().compactMap { String(validating: $0, as: UTF8.self) }
    }

    /// Returns the names with their terminating zeros.
    func rawNames() throws(DiskError) -> [[CChar]] {
        var names: [[CChar]] = []
        try forEachName { name, _ in names.append(Array(name)) }
        return names
    }

    /// Some file systems list names without their kinds (`DT_UNKNOWN`); these need an fstatat each.
    func kind(ofType type: UInt8, _ name: ArraySlice<CChar>) throws(DiskError) -> DirectoryEntry.Kind {
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
        _ = try checked(result, to: "examine", at: path)
        return UInt8(truncatingIfNeeded: (status.st_mode & S_IFMT) >> 12)
    }

    /// Calls `body` with each name, including its terminating zero, and its `d_type`.
    private func forEachName(_ body: (ArraySlice<CChar>, UInt8) throws(DiskError) -> Void) throws(DiskError) {
        var failure: Int32 = 0
        guard let stream = clinux_open_stream(descriptor, &failure) else {
            throw DiskError("list", at: path, code: failure)
        }
        defer { clinux_close_stream(stream) }
        var name = [CChar](repeating: 0, count: 256)
        var type: UInt8 = 0
        while true {
            let length = Int(
                try checkedNegative(clinux_read_entry(stream, &name, name.count, &type), to: "list", at: path))
            if length == 0 { return }
            try body(name[...length], type)
        }
    }
    /// Returns the paths of all regular files below this directory, in the bytes of the kernel and in no particular
    /// order. It lists each directory once and does not open files.
    package func filePaths() throws(DiskError) -> [[UInt8]] {
        var paths: [[UInt8]] = []
        var directories: [[UInt8]] = [[]]
        while let prefix = directories.popLast() {
            // No client requests names that are not UTF-8.
            guard let name = String(validating: prefix.dropLast(), as: UTF8.self) else { continue }
            for entry in try (prefix.isEmpty ? self : directory(name)).entries() {
                switch entry.kind {
                case .file: paths.append(prefix + entry.name)
                case .directory: directories.append(prefix + entry.name + [UInt8(ascii: "/")])
                case .symbolicLink, .other: break
                }
            }
        }
        return paths
    }
}
