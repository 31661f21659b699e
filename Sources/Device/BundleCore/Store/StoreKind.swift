import BundleDisk
package import BundleFormats
import BundleValues

/// Whether a store has web clients or programs. Its first installation decides, and it refuses the other kind.
package enum StoreKind {
    private static let maximumBytes = 64

    /// Returns the kind of the store at `path`; nil if nothing was ever installed.
    package static func read(at path: String) throws -> ReleaseKind? {
        guard File.exists(path) else { return nil }
        return try read(Directory.open(path))
    }

    /// A store without the file has web clients, as those of 0.9.0 do.
    static func read(_ root: Directory) throws -> ReleaseKind? {
        if let word = try word(in: root) {
            guard let kind = ReleaseKind(rawValue: word) else {
                throw UpdateFailure(
                    .storeDamaged, subject: root.display(StoreLayout.kind),
                    "\(root.path)/\(StoreLayout.kind) has neither client nor program. Write the right word into it, or use another "
                        + "store.")
            }
            return kind
        }
        do {
            return try LedgerFile.read(root)?.entries.isEmpty == false ? .client : nil
        } catch let failure as UpdateFailure where failure.code == .storeDamaged {
            // A store of programs has the file. An installation of web clients rebuilds the ledger.
            return .client
        }
    }

    private static func word(in root: Directory) throws(DiskError) -> String? {
        try root.contents(StoreLayout.kind, maximumBytes: maximumBytes).map { bytes in
            String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        }
    }

    /// Throws `wrongKind` if the store at `path` has the other kind.
    package static func require(_ kind: ReleaseKind, at path: String) throws {
        if File.exists(path) { try require(kind, in: Directory.open(path)) }
    }

    /// Throws `wrongKind` if the store has the other kind.
    static func require(_ kind: ReleaseKind, in root: Directory) throws {
        switch kind {
        case .client:
            // A damaged ledger does not keep web clients from the screen.
            if (try? word(in: root)) == ReleaseKind.program.rawValue { throw refusal(of: root.path, .program) }
        case .program:
            if try read(root) == .client { throw refusal(of: root.path, .client) }
        }
    }

    /// Decides the kind of a store at its first installation. Throws `wrongKind` if the store has the other kind.
    static func settle(_ kind: ReleaseKind, in root: Directory) throws {
        try require(kind, in: root)
        if kind == .program, try root.kind(of: StoreLayout.kind) == nil {
            try root.replaceFile(StoreLayout.kind, with: Array("\(kind.rawValue)\n".utf8))
        }
    }

    private static func refusal(of path: String, _ found: ReleaseKind) -> UpdateFailure {
        UpdateFailure(
            .wrongKind, subject: path,
            found == .program
                ? "The store \(path) has programs, which only `clientctl run` starts. Use another store for web clients."
                : "The store \(path) has web clients. Use another store for programs.")
    }
}

/// The modes of the files of a program: 0755 for the executable ones, 0644 for the others.
struct ProgramModes {
    private let executable: Set<BundlePath>

    init(_ program: ReleaseProgram) { executable = Set(program.files) }

    /// Returns the program of an installed release; nil for a web client.
    static func program(of receipt: File) throws -> ReleaseProgram? {
        guard let manifest = try Receipt.manifest(of: receipt)?.objectValue, let path = manifest["program"]?.stringValue
        else { return nil }
        let others = manifest["programs"]?.arrayValue?.compactMap(\.stringValue) ?? []
        do throws(ReleaseProgram.Refusal) {
            return try ReleaseProgram([path] + others)
        } catch {
            throw UpdateFailure(
                .storeDamaged, subject: receipt.path, "The receipt \(receipt.path) names no valid program: \(error).")
        }
    }

    /// Sets the modes in `tree`. A file that another client shares may have another mode there, so it is copied.
    func apply(to tree: Directory) throws {
        for bytes in try tree.filePaths() {
            let path = try BundlePath(parsing: bytes)
            let mode: UInt32 = executable.contains(path) ? 0o755 : 0o644
            let file = try tree.file(path.string)
            if try file.permissions() == mode { continue }
            if try file.links() == 1 {
                try file.setPermissions(mode)
                continue
            }
            let folder = try path.parent.map { path throws(DiskError) in try tree.directory(path.string) } ?? tree
            let aside = randomName(".mode-")
            let copy = try folder.file(creating: aside)
            _ = try file.forEachBlock { try copy.write($0) }
            try copy.setPermissions(mode)
            try folder.rename(aside, to: path.name)
        }
    }
}
