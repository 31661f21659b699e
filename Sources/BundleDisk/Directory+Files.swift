import CLinux
import Glibc

extension Directory {
    /// The paths of all regular files below this directory, in no order, as the kernel's bytes; links and what is neither file
    /// nor directory are left out. Costs one listing a directory, and no look at any file.
    public func filePaths() throws(DiskError) -> [[UInt8]] {
        var paths: [[UInt8]] = []
        var directories: [[UInt8]] = [[]]
        while let prefix = directories.popLast() {
            // A file system outside may have names that are not UTF-8; nobody can ask for those.
            guard let name = String(validating: prefix.dropLast(), as: UTF8.self) else { continue }
            let listed = prefix.isEmpty ? self : try directory(name)
            for (entry, kind) in try listed.typedNames() {
                switch kind {
                case .file: paths.append(prefix + entry)
                case .directory: directories.append(prefix + entry + [UInt8(ascii: "/")])
                case .symbolicLink, .other: break
                }
            }
        }
        return paths
    }

    private func typedNames() throws(DiskError) -> [(name: [UInt8], kind: EntryKind)] {
        var failure: Int32 = 0
        guard let stream = clinux_open_stream(descriptor, &failure) else {
            throw DiskError("list", path, code: failure)
        }
        defer { clinux_close_stream(stream) }
        var names: [(name: [UInt8], kind: EntryKind)] = []
        var name = [CChar](repeating: 0, count: 256)
        var type: UInt8 = 0
        while true {
            let length = Int(try checkedNegative(clinux_read_entry(stream, &name, name.count, &type), "list", path))
            if length == 0 { return names }
            names.append((name[..<length].map(UInt8.init(bitPattern:)), try kind(type, name)))
        }
    }

    /// Some file systems do not tell the type with the name.
    private func kind(_ type: UInt8, _ name: [CChar]) throws(DiskError) -> EntryKind {
        switch Int(type) {
        case Int(DT_REG): return .file(size: 0)
        case Int(DT_DIR): return .directory
        case Int(DT_UNKNOWN):
            let text = name.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } }
            return try text.flatMap { text throws(DiskError) in try kind(of: text) } ?? .other
        default: return .other
        }
    }
}
