import BundleFormats
import BundleDisk
import BundleValues
import CLibrary

/// A file or folder in a built folder that must not be published.
struct MisplacedContent: Equatable {
    enum Kind: Equatable {
        case privateKey, quotedKey, inputSecret, secrets, repository, dependencies, feed, otherFeed
        case nativeCode(String)
    }

    let kind: Kind
    /// The printable path of the file or folder.
    let path: String

    /// Throws if `source` contains misplaced content that is neither excluded nor allowed. A private key file, a file
    /// from which this run reads a secret, and the feed cannot be allowed.
    static func refuse(in source: String, feed: String?, _ options: ReleaseOptions) throws {
        var found: [MisplacedContent] = []
        var options = options
        if options.drops.contains(.junk) { options.excluded += FolderRule.junk }
        // `-` is not a file, and the shared credentials file need not exist.
        let secrets = options.secretFiles.filter(File.exists).map { ($0, Kind.inputSecret) }
        for (location, kind) in (feed.map { [($0, Kind.feed)] } ?? []) + secrets {
            guard let path = path(of: location, in: source), !options.excluded.contains(where: { $0.covers(path) })
            else {
                continue
            }
            found.append(MisplacedContent(kind: kind, path: path.isEmpty ? location : UntrustedName.display(path)))
        }
        if let maps = options.mapsFolder,
            let open = [feed, source].compactMap(\.self).first(where: { location in
                guard let path = path(of: maps, in: location) else { return false }
                return location != source || !options.excluded.contains { $0.covers(path) }
            })
        {
            throw UpdateFailure(
                .configInvalid, subject: maps,
                "The folder of --archive-maps, \(maps), is in \(open), so the source maps would be published. Give a folder outside it."
            )
        }
        try search(Directory.open(source), prefix: [], options: options, into: &found)
        var paths: Set<String> = []
        found.removeAll { !paths.insert($0.path).inserted }
        guard let first = found.first else { return }
        let shown = found.prefix(20).map { "\($0.kind.words) (\($0.path))" }
        let more = found.count > shown.count ? ", and \(found.count - shown.count) more" : ""
        let isAllowable = found.contains { !$0.kind.isNeverAllowed }
        throw UpdateFailure(
            .archiveRejected, subject: "\(first.kind.rule): \(first.path)",
            "Not published. The folder \(source) contains files that devices must not get: \(shown.joined(separator: ", "))\(more). "
                + "Move them out of the folder, or use --exclude."
                + (isAllowable ? " --allow NAME publishes what belongs there." : ""))
    }

    private static func search(
        _ folder: Directory, prefix: [UInt8], options: ReleaseOptions, into found: inout [MisplacedContent]
    ) throws {
        for entry in try folder.entries().sorted(by: { $0.name.lexicographicallyPrecedes($1.name) }) {
            let path = prefix + entry.name
            if options.excluded.contains(where: { $0.matches(path) }) { continue }
            let isAllowed = options.allowed.contains { $0.covers(path) }
            // A name that is not UTF-8 is refused when the client is listed.
            guard let name = String(validating: entry.name, as: UTF8.self) else { continue }
            if !isAllowed, let kind = Kind(ofName: name) {
                found.append(MisplacedContent(kind: kind, path: UntrustedName.display(path)))
            } else if entry.kind == .directory {
                if !isAllowed, name == "releases", try isOfFeed(folder.directory(name)) {
                    found.append(MisplacedContent(kind: .otherFeed, path: UntrustedName.display(path)))
                    continue
                }
                try search(folder.directory(name), prefix: path + [UInt8(ascii: "/")], options: options, into: &found)
            } else if entry.kind == .file {
                let file = try folder.file(name)
                let bytes = try file.head(min(file.size(), mostBytes))
                guard let kind = Kind(ofContent: bytes), kind.isNeverAllowed || !isAllowed else { continue }
                if case .nativeCode = kind, options.program != nil { continue }
                found.append(MisplacedContent(kind: kind, path: UntrustedName.display(path)))
            }
        }
    }

    /// Returns the path of the feed in `source`, even if the feed does not exist yet; nil if it is elsewhere.
    private static func path(of feed: String, in source: String) -> [UInt8]? {
        guard let top = PathLook.resolved(source), let location = PathLook.resolved(feed) else { return nil }
        if location == top { return [] }
        let prefix = top == "/" ? top : top + "/"
        return location.hasPrefix(prefix) ? Array(location.utf8.dropFirst(prefix.utf8.count)) : nil
    }

    /// Returns whether `releases` is the folder of a feed, with archives of versions.
    private static func isOfFeed(_ releases: Directory) throws -> Bool {
        for entry in try releases.entries() where entry.kind == .directory && entry.name.first == UInt8(ascii: "v") {
            guard let name = String(validating: entry.name, as: UTF8.self) else { continue }
            if try releases.directory(name).entries().contains(where: { $0.name.starts(with: "client-v".utf8) }) {
                return true
            }
        }
        return false
    }

    private static let mostBytes = 16 << 20
}

extension MisplacedContent.Kind {
    init?(ofName name: String) {
        let name = name.lowercased()
        switch name {
        case ".git", ".hg", ".svn", ".bzr": self = .repository
        case "node_modules", "bower_components": self = .dependencies
        case ".envrc", ".ssh", ".gnupg", ".aws", ".azure", ".docker", ".kube", ".config", ".npmrc", ".yarnrc", ".netrc",
            ".pypirc", ".htpasswd", ".git-credentials", ".pgpass", ".my.cnf", ".vault-token", "sftp.json",
            "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "secring.gpg":
            self = .secrets
        default:
            let isSecret =
                [".env", ".env.", ".env~"].contains { name == $0 || $0 != ".env" && name.hasPrefix($0) }
                || [".env", ".p8", ".pk8", ".p12", ".pfx", ".jks", ".keystore", ".kdbx"].contains(where: name.hasSuffix)
            guard isSecret else { return nil }
            self = .secrets
        }
    }

    init?(ofContent bytes: [UInt8]) {
        if let system = bytes.withUnsafeBytes(NativeCode.kind) {
            self = .nativeCode(system)
            return
        }
        switch SecretContent.find(in: bytes) {
        case .keyFile: self = .privateKey
        case .keyInside: self = .quotedKey
        case nil: return nil
        }
    }

    var isNeverAllowed: Bool { [.privateKey, .inputSecret, .feed].contains(self) }

    var rule: String {
        switch self {
        case .privateKey, .quotedKey: "private-key"
        case .inputSecret, .secrets: "secrets"
        case .repository: "repository"
        case .dependencies: "dependencies"
        case .feed, .otherFeed: "feed"
        case .nativeCode: "native-code"
        }
    }

    var words: String {
        switch self {
        case .privateKey: "a private key"
        case .quotedKey: "a file with a private key in it"
        case .inputSecret: "a file that this command reads a secret from"
        case .secrets: "passwords or keys"
        case .repository: "a repository"
        case .dependencies: "a folder of dependencies"
        case .feed: "the feed itself"
        case .otherFeed: "a feed"
        case .nativeCode(let system): "a native executable (\(system))"
        }
    }
}

/// Detects executables by their first bytes: a web client has none.
enum NativeCode {
    /// Returns the kind of executable that starts with `bytes`; nil if it is not one.
    static func kind(of bytes: UnsafeRawBufferPointer) -> String? {
        guard bytes.count >= 8 else { return nil }
        switch bytes.loadUnaligned(as: UInt32.self).bigEndian {
        case 0x7F45_4C46: return "ELF"
        case 0xFEED_FACE, 0xFEED_FACF, 0xCEFA_EDFE, 0xCFFA_EDFE: return "Mach-O"
        // A Java class starts with the same four bytes, followed by a version of 45 or more; Mach-O has a small
        // number of architectures there.
        case 0xCAFE_BABE:
            return bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self).bigEndian < 45 ? "Mach-O" : nil
        default: return isPE(bytes) ? "PE" : nil
        }
    }

    /// "MZ" alone may be text, so the header that it points to is checked (PE format, section "MS-DOS Stub").
    private static func isPE(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= 0x40, bytes[0] == UInt8(ascii: "M"), bytes[1] == UInt8(ascii: "Z") else { return false }
        let offset = Int(bytes.loadUnaligned(fromByteOffset: 0x3C, as: UInt32.self).littleEndian)
        guard offset <= bytes.count - 4 else { return false }
        return bytes[offset..<offset + 4].elementsEqual([0x50, 0x45, 0, 0])
    }
}
