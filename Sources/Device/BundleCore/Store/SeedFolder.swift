import BundleValues
package import BundleDisk
package import BundleSigning

/// The client that is part of the shell. It may always run.
package struct SeedFolder: Sendable {
    static let servingPrefix = "embedded-"

    package let directory: Directory
    /// The digest of the seed's index page and its asset manifest, if it has one. Another digest means another shell.
    package let identity: SHA256Digest
    /// The facts of a seed that is a Meteor bundle.
    package let facts: MeteorFacts?
    /// The reason why the asset manifest could not be read, in which case the files are served by their paths; nil if it could.
    package let manifestFailure: String?

    /// Opens the folder at `path`, which must have an index page. `layout` reads its asset manifest.
    package init(at path: String, layout: (any MeteorLayout)?) throws {
        do {
            directory = try Directory.open(path)
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The seed cannot be opened: \(error). Create this folder, or remove --seed (CLIENTCTL_SEED).")
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
            manifestFailure = nil
        } catch {
            facts = nil
            manifestFailure = "The seed \(path) is served by its files' paths: \(UpdateFailure(error).message)"
        }
    }

    /// Returns whether files can be linked into `folder`. They cannot if they are on another disk, belong to another
    /// user, or may only be read.
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

    /// Returns the space that the seed's files need.
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

    /// Returns false if the folder has no such file.
    private static func add(_ name: String, of directory: Directory, to hasher: inout SHA256Hasher) throws -> Bool {
        guard case .file? = try directory.kind(of: name) else { return false }
        _ = try directory.file(name).forEachBlock { try hasher.update($0) }
        return true
    }

    /// Returns the name of the seed's serving root. It depends on the names and times of all folders, which change
    /// when an update of the shell replaces files. The files are not read.
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
