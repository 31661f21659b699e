import BundleDisk
import BundleSigning
import BundleValues

/// The folder for good copies of damaged files during a repair. `clear` removes it; after an interruption the next
/// run does. Requires the store's lock.
struct RepairFolder: Sendable {
    /// The folder. Each copy is named by its digest.
    let folder: Directory
    /// The store's folder of downloads.
    let downloads: Directory
    private let name: String
    private let folders: StoreFolders

    private static let placing = "placing"

    init(_ folders: StoreFolders) throws {
        self.folders = folders
        downloads = folders.downloads
        name = randomName("repair-")
        try folders.staging.makeDirectory(name, mode: 0o700)
        folder = try folders.staging.directory(name)
    }

    /// Removes the folder. If that fails, the next run removes it.
    func clear(_ warn: (String) -> Void) {
        do { try folders.staging.removeTree(name) } catch {
            warn("\(UpdateFailure(error).message) The next run removes \(StoreLayout.staging)/\(name).")
        }
    }

    // MARK: Good copies

    /// Links into this folder, for each digest of `wanted`, an intact file of one of `clients`. Returns the client of each link, without
    /// digests that no client has.
    func copies(
        of wanted: Set<SHA256Digest>, among clients: [ClientSurvey]
    ) throws -> [SHA256Digest: RepairReport.RepairOrigin] {
        var copies: [SHA256Digest: RepairReport.RepairOrigin] = [:]
        for client in clients {
            for record in client.whole where wanted.contains(record.digest) && copies[record.digest] == nil {
                let parent = try Self.parent(of: record.path, in: client.tree)
                try link(record.path.name, of: parent, as: record.digest.hex)
                copies[record.digest] = .client(client.name)
            }
        }
        return copies
    }

    /// Adds copies of files of the seed. They are not linked, since the seed belongs to the shell.
    func add(
        _ wanted: Set<SHA256Digest>, from seed: SeedFolder, to copies: inout [SHA256Digest: RepairReport.RepairOrigin]
    ) throws {
        for path in try seed.directory.filePaths() {
            if wanted.allSatisfy({ copies[$0] != nil }) { return }
            guard let name = String(validating: path, as: UTF8.self) else { continue }
            let file = try seed.directory.file(name)
            let digest = try file.sha256()
            guard wanted.contains(digest), copies[digest] == nil else { continue }
            try copy(file, to: Self.placing)
            try accept(Self.placing, as: digest, from: .seed, into: &copies)
        }
    }

    /// Accepts the file `name` as a copy of `digest`, or removes it if its content differs.
    func accept(
        _ name: String, as digest: SHA256Digest, from origin: RepairReport.RepairOrigin,
        into copies: inout [SHA256Digest: RepairReport.RepairOrigin]
    ) throws {
        guard case .file? = try folder.kind(of: name) else { return }
        guard try folder.file(name).sha256() == digest else { return try folder.removeFile(name) }
        try folder.rename(name, to: digest.hex)
        copies[digest] = origin
    }

    private func copy(_ file: File, to name: String) throws {
        let copy = try folder.file(creating: name)
        _ = try file.forEachBlock { try copy.write($0) }
    }

    /// Links a file, or copies it if the file system cannot link it.
    private func link(_ name: String, of source: Directory, as target: String) throws {
        do {
            try source.link(name, to: folder, as: target)
        } catch {
            guard [.crossesDevice, .tooManyLinks, .permission].contains(error.kind) else { throw error }
            try copy(source.file(name), to: target)
        }
    }

    // MARK: Into their places

    /// Replaces every damaged file of `client` by a copy, and removes files that were not installed.
    func repair(
        _ client: ClientSurvey, with copies: [SHA256Digest: RepairReport.RepairOrigin], report: inout RepairReport
    ) throws {
        if client.findings.isEmpty { return }
        // No copy gets its final name before all its bytes are on the disk.
        try folder.syncFileSystem()
        var touched: Set<BundlePath?> = [nil]
        // Extra files go first, since one may be in the way of a folder.
        for path in client.extras { try takeAway(path, of: client, touched: &touched, report: &report) }
        for record in client.damaged {
            guard let origin = copies[record.digest] else {
                report.damage.append(
                    RepairReport.Damage(
                        client: client.name, path: record.path.string,
                        reason:
                            "is missing or damaged, and no client, seed or archive has a copy")
                )
                continue
            }
            try place(record.digest.hex, of: folder, at: record.path, in: client.tree)
            for path in sequence(first: record.path.parent, next: { $0?.parent }).prefix(BundlePath.maximumComponents) {
                touched.insert(path)
                if path == nil { break }
            }
            report.repaired.append(
                RepairReport.RepairedFile(
                    client: client.name, path: record.path.string, origin: origin, isServed: false))
        }
        try ProgramModes.program(of: client.receipt).map { try ProgramModes($0).apply(to: client.tree) }
        try Self.sync(touched, in: client.tree)
    }

    private func takeAway(
        _ path: [UInt8], of client: ClientSurvey, touched: inout Set<BundlePath?>, report: inout RepairReport
    ) throws {
        // The file may have been removed together with a folder.
        guard let legal = try? BundlePath(parsing: path) else {
            report.damage.append(
                RepairReport.Damage(
                    client: client.name, path: UntrustedName.display(path), reason: "was not installed: remove it"))
            return
        }
        let parent = try StoreSurvey.existing { () throws(DiskError) in
            try legal.parent.map { path throws(DiskError) in try client.tree.directory(path.string) } ?? client.tree
        }
        if let parent, try parent.kind(of: legal.name) != nil {
            try parent.move(legal.name, to: folder, as: randomName("trash-"))
            touched.insert(legal.parent)
        }
        report.repaired.append(
            RepairReport.RepairedFile(client: client.name, path: legal.string, origin: .removed, isServed: false))
    }

    /// Links `name` of `source` to the path too, and replaces the present file in one rename.
    private func place(_ name: String, of source: Directory, at path: BundlePath, in tree: Directory) throws {
        let parent = try parent(making: path, in: tree)
        switch try parent.kind(of: path.name) {
        case .directory?: try parent.move(path.name, to: folder, as: randomName("trash-"))
        default: break
        }
        try folder.removeFile(Self.placing)
        try link(name, of: source, as: Self.placing)
        // A file that was copied because it cannot be linked is not durable yet.
        try folder.file(Self.placing).sync()
        try folder.rename(Self.placing, to: parent, as: path.name)
        // A rename between two names of one file leaves both.
        try folder.removeFile(Self.placing)
    }

    /// Makes the names in `folders` of `tree` durable. Nil is the tree itself.
    private static func sync(_ folders: Set<BundlePath?>, in tree: Directory) throws {
        for path in folders {
            guard let path else {
                try tree.sync()
                continue
            }
            try tree.directory(path.string).sync()
        }
    }

    private static func parent(of path: BundlePath, in tree: Directory) throws -> Directory {
        guard let parent = path.parent else { return tree }
        return try tree.directory(parent.string)
    }

    /// Returns the parent folder. Creates missing folders, and replaces entries that are not folders.
    private func parent(making path: BundlePath, in tree: Directory) throws -> Directory {
        var parent = tree
        for component in path.components.dropLast() {
            let name = String(decoding: component, as: UTF8.self)
            switch try parent.kind(of: name) {
            case .directory?: break
            case nil: try parent.makeDirectory(name)
            default:
                try parent.move(name, to: folder, as: randomName("trash-"))
                try parent.makeDirectory(name)
            }
            parent = try parent.directory(name)
        }
        return parent
    }

    // MARK: Serving roots

    /// Returns the serving root of `bundle`; nil if there is none.
    func root(of bundle: InstalledBundle) throws(DiskError) -> Directory? {
        try StoreSurvey.existing { () throws(DiskError) in
            try folders.serving.directory(bundle.entry.identity.servingName)
        }
    }

    /// Compares a serving root with its source files, and replaces those that differ. Returns their URL paths.
    func repair(_ root: Directory, by map: AssetMap) throws -> [String] {
        var repaired: [String] = []
        var touched: Set<BundlePath?> = []
        for asset in map.assets {
            let source = try Self.parent(of: asset.path, in: asset.source)
            if asset.urlPath == .index {
                let page = ShimInjector.inject(into: try source.file(asset.path.name).readAll())
                guard try put(page, at: asset.urlPath, in: root) else { continue }
            } else {
                if try isSame(asset, in: root) { continue }
                try place(asset.path.name, of: source, at: asset.urlPath, in: root)
            }
            repaired.append(asset.urlPath.string)
            touched.insert(asset.urlPath.parent)
        }
        for file in map.generated where try put(file.bytes, at: file.urlPath, in: root) {
            repaired.append(file.urlPath.string)
            touched.insert(file.urlPath.parent)
        }
        try Self.sync(touched, in: root)
        return repaired
    }

    private func isSame(_ asset: AssetMap.Asset, in root: Directory) throws -> Bool {
        let source = try asset.source.file(asset.path.string)
        guard let served = try StoreSurvey.existing({ () throws(DiskError) in try root.file(asset.urlPath.string) })
        else { return false }
        if try source.stamp() == served.stamp() { return true }
        let buffers = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 4096)
        defer { buffers.deallocate() }
        return try source.hasSameContent(
            as: served, scratch: UnsafeMutableRawBufferPointer(rebasing: buffers[..<(1 << 17)]),
            and: UnsafeMutableRawBufferPointer(rebasing: buffers[(1 << 17)...]))
    }

    /// Writes `bytes` to `path` unless the file has them already. Returns whether it wrote.
    private func put(_ bytes: [UInt8], at path: BundlePath, in root: Directory) throws -> Bool {
        let present = try StoreSurvey.existing { () throws(DiskError) in
            try root.contents(path.string, maximumBytes: bytes.count)
        }
        if present == bytes { return false }
        try folder.removeTree("page")
        try folder.createDurableFile("page", with: bytes)
        try place("page", of: folder, at: path, in: root)
        return true
    }
}
