import BundleValues
package import BundleDisk
package import BundleSigning

/// The client that the shell itself brings; always a legal target.
package struct SeedFolder: Sendable {
    static let servingPrefix = "embedded-"

    private static let maximumIndexBytes = 16 << 20

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
                "The seed cannot be opened: \(error). Name the shell's own client folder.")
        }
        guard let index = try Self.contents("index.html", directory) else {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The seed \(path) has no index.html: name the shell's own client folder.")
        }
        var hasher = try SHA256Hasher()
        try hasher.update(index)
        if let manifest = try Self.contents("program.json", directory) { try hasher.update(manifest) }
        identity = try hasher.finish()
        do {
            facts = try layout?.facts(of: directory)
            trouble = nil
        } catch {
            facts = nil
            trouble = "The seed \(path) is served by its files' paths: \(UpdateFailure(error).message)"
        }
    }

    private static func contents(_ name: String, _ directory: Directory) throws -> [UInt8]? {
        guard case .file? = try directory.kind(of: name) else { return nil }
        return try directory.contents(name, maximumBytes: maximumIndexBytes)
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
