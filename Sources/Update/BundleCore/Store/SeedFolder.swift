import BundleValues
package import BundleDisk
package import BundleSigning

/// The client that the shell itself brings; always a legal target.
package struct SeedFolder: Sendable {
    static let servingPrefix = "embedded-"

    /// The folder.
    package let directory: Directory
    /// Which seed it is: its index page and, where there is one, its asset manifest. Another one is another shell.
    package let identity: SHA256Digest
    /// What it says about itself, where it is a Meteor bundle.
    package let facts: MeteorFacts?
    /// Why its asset manifest is no help, where it has one that cannot be read: then its files are served by path.
    package let trouble: String?

    /// Opens the folder at `path`, which must hold an index page; `layout` reads its asset manifest, if it has one.
    package init(at path: String, layout: (any MeteorLayout)?) throws {
        do {
            directory = try Directory.open(path)
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The seed cannot be opened: \(error). Name the folder of the seed.")
        }
        var hasher = try SHA256Hasher()
        guard try Self.add("index.html", of: directory, to: &hasher) else {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The seed \(path) has no index.html. Name the folder that contains it.")
        }
        _ = try Self.add("program.json", of: directory, to: &hasher)
        identity = try hasher.finish()
        do {
            facts = try layout?.facts(of: directory)
            trouble = nil
        } catch {
            facts = nil
            trouble = "The seed \(path) is served by its files' paths: \(UpdateFailure(error).message)"
        }
    }

    /// Whether its files can be linked into `folder`: not on another disk, not where they are somebody else's, and not by a process
    /// that may only read them.
    func canBeLinked(into folder: Directory) -> Bool {
        let name = randomName(".new-")
        do {
            try directory.link("index.html", to: folder, as: name)
            try folder.removeFile(name)
            return true
        } catch {
            return false
        }
    }

    /// The room that its files take.
    func footprint() throws -> Footprint {
        var (bytes, files) = (0, 0)
        try Self.addSizes(below: directory, &bytes, &files)
        return Footprint(downloadBytes: nil, installedBytes: bytes, fileCount: files)
    }

    private static func addSizes(below folder: Directory, _ bytes: inout Int, _ files: inout Int) throws {
        for entry in try folder.entries() {
            guard let name = String(validating: entry.name, as: UTF8.self) else { continue }
            switch try folder.kind(of: name) {
            case .directory?: try addSizes(below: folder.directory(name), &bytes, &files)
            case .file(let size)?:
                let (sum, overflow) = bytes.addingReportingOverflow(size)
                (bytes, files) = (overflow ? .max : sum, files + 1)
            case .symbolicLink?, .other?, nil: break
            }
        }
    }

    /// False where the folder has no such file.
    private static func add(_ name: String, of directory: Directory, to hasher: inout SHA256Hasher) throws -> Bool {
        guard case .file? = try directory.kind(of: name) else { return false }
        _ = try directory.file(name).forEachBlock { try hasher.update($0) }
        return true
    }

    /// The name of its serving root. A shell's update replaces files, so every folder's names and times are in it: the
    /// files themselves are not looked at.
    func servingName(shell: SemanticVersion) throws -> String {
        var hasher = try SHA256Hasher()
        try identity.withUnsafeBytes { try hasher.update($0) }
        try hasher.update(Array("\(shell)\n".utf8))
        try Self.addNames(below: directory, to: &hasher)
        return "\(Self.servingPrefix)\(try hasher.finish().hex.prefix(16))"
    }

    private static func addNames(below folder: Directory, to hasher: inout SHA256Hasher) throws {
        try hasher.update(Array("\(try folder.modification())\n".utf8))
        for entry in try folder.entries().sorted(by: { $0.name.lexicographicallyPrecedes($1.name) }) {
            try hasher.update(entry.name + [0])
            if entry.kind == .directory, let name = String(validating: entry.name, as: UTF8.self) {
                try addNames(below: folder.directory(name), to: &hasher)
            }
        }
    }
}
