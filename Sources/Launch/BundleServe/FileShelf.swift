/// A path below a site's root; its identity is its bytes.
struct FilePath: Hashable, Sendable {
    let bytes: [UInt8]

    func hash(into hasher: inout Hasher) {
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}

/// The files that were asked for, ready to be sent; a full shelf is emptied.
struct FileShelf {
    static let maximumBytes = 4 << 20
    static let maximumOpenFiles = 32

    private(set) var files: [FilePath: SiteFile] = [:]
    private var bytes = 0
    private var openFiles = 0

    /// Takes a file away that is another one now.
    mutating func drop(_ path: FilePath) {
        guard let file = files.removeValue(forKey: path) else { return }
        bytes -= file.cost
        openFiles -= file.isOpen ? 1 : 0
    }

    mutating func put(_ file: SiteFile, _ path: FilePath) {
        if files[path] != nil { return }
        let isOpen = file.isOpen
        if bytes + file.cost > Self.maximumBytes || isOpen && openFiles == Self.maximumOpenFiles {
            self = FileShelf()
        }
        files[path] = file
        bytes += file.cost
        openFiles += isOpen ? 1 : 0
    }
}
