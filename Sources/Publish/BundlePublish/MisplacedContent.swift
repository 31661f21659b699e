import ArchiveSource
import BundleDisk
import BundleValues
import Glibc

/// What lies in a built folder by mistake and would be given to every device.
struct MisplacedContent: Equatable {
    enum Kind: Equatable {
        case privateKey, quotedKey, givenSecret, secrets, repository, dependencies, feed, otherFeed
        case nativeCode(String)
    }

    let kind: Kind
    /// Of the file or folder, printable.
    let path: String

    /// Refuses the folder `source` with all of it that is neither excluded nor allowed. A file that is a private key, one that
    /// this very run reads a secret from, and the feed never are allowed.
    static func refuse(in source: String, feed: String?, _ options: ReleaseOptions) throws {
        var found: [MisplacedContent] = []
        var options = options
        if options.drops.contains(.junk) { options.excluded += FolderRule.junk }
        // `-` is no file, and the shared credentials file need not exist.
        let secrets = options.secretFiles.filter(File.exists).map { ($0, Kind.givenSecret) }
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
                "The folder of --archive-maps, \(maps), is in \(open), so the source maps would be published: name one outside it."
            )
        }
        try search(Directory.open(source), prefix: [], options, into: &found)
        var paths: Set<String> = []
        found.removeAll { !paths.insert($0.path).inserted }
        guard let first = found.first else { return }
        let shown = found.prefix(20).map { "\($0.kind.words) (\($0.path))" }
        let more = found.count > shown.count ? ", and \(found.count - shown.count) more" : ""
        let isAllowable = found.contains { !$0.kind.isNeverAllowed }
        throw UpdateFailure(
            .archiveRejected, subject: "\(first.kind.rule): \(first.path)",
            "Not published. The folder \(source) contains things that devices must not get: \(shown.joined(separator: ", "))\(more). "
                + "Move them out of the folder, or use --exclude."
                + (isAllowable ? " --allow NAME publishes what belongs there." : ""))
    }

    private static func search(
        _ folder: Directory, prefix: [UInt8], _ options: ReleaseOptions, into found: inout [MisplacedContent]
    ) throws {
        for entry in try folder.entries().sorted(by: { $0.name.lexicographicallyPrecedes($1.name) }) {
            let path = prefix + entry.name
            if options.excluded.contains(where: { $0.matches(path) }) { continue }
            let isAllowed = options.allowed.contains { $0.covers(path) }
            // A name that is no text is refused with its rule, when the client is listed.
            guard let name = String(validating: entry.name, as: UTF8.self) else { continue }
            if !isAllowed, let kind = Kind(ofName: name) {
                found.append(MisplacedContent(kind: kind, path: UntrustedName.display(path)))
            } else if entry.kind == .directory {
                if !isAllowed, name == "releases", try isOfFeed(folder.directory(name)) {
                    found.append(MisplacedContent(kind: .otherFeed, path: UntrustedName.display(path)))
                    continue
                }
                try search(folder.directory(name), prefix: path + [UInt8(ascii: "/")], options, into: &found)
            } else if entry.kind == .file {
                let file = try folder.file(name)
                let bytes = try file.head(min(file.size(), mostBytes))
                guard let kind = Kind(ofContent: bytes), kind.isNeverAllowed || !isAllowed else { continue }
                found.append(MisplacedContent(kind: kind, path: UntrustedName.display(path)))
            }
        }
    }

    /// Where the feed lies in `source`, whether it is there yet or not; nil where it lies elsewhere.
    private static func path(of feed: String, in source: String) -> [UInt8]? {
        guard let top = resolved(source), let location = resolved(feed) else { return nil }
        if location == top { return [] }
        let prefix = top == "/" ? top : top + "/"
        return location.hasPrefix(prefix) ? Array(location.utf8.dropFirst(prefix.utf8.count)) : nil
    }

    private static func resolved(_ path: String) -> String? {
        if let real = realpath(path, nil) {
            defer { free(real) }
            return String(cString: real)
        }
        var parts = path.split(separator: "/", omittingEmptySubsequences: false)
        while parts.last == "" { parts.removeLast() }
        guard let name = parts.popLast(), name != ".." else { return nil }
        let parent = parts.isEmpty ? "." : parts.joined(separator: "/")
        return resolved(parent.isEmpty ? "/" : parent).map { $0 == "/" ? "/\(name)" : "\($0)/\(name)" }
    }

    /// Whether `releases` is the folder of a feed: of versions that have archives.
    private static func isOfFeed(_ releases: Directory) throws -> Bool {
        for entry in try releases.entries() where entry.kind == .directory && entry.name.first == UInt8(ascii: "v") {
            guard let name = String(validating: entry.name, as: UTF8.self) else { continue }
            if try releases.directory(name).entries().contains(where: { $0.name.starts(with: "client-v".utf8) }) {
                return true
            }
        }
        return false
    }

    /// Scripts are looked through whole; a film has no key at its end.
    private static let mostBytes = 16 << 20
}

extension MisplacedContent.Kind {
    init?(ofName name: String) {
        let name = name.lowercased()
        switch name {
        case ".git", ".hg", ".svn", ".bzr": self = .repository
        case "node_modules", "bower_components": self = .dependencies
        case ".envrc", ".ssh", ".gnupg", ".aws", ".azure", ".docker", ".kube", ".config", ".npmrc", ".yarnrc", ".netrc",
            ".pypirc", ".htpasswd", ".git-credentials", ".pgpass", ".my.cnf", ".vault-token", "sftp.json":
            self = .secrets
        default:
            let isSecret =
                [".env", ".env.", ".env~"].contains { name == $0 || $0 != ".env" && name.hasPrefix($0) }
                || [".env", ".p12", ".pfx", ".jks", ".keystore", ".kdbx"].contains(where: name.hasSuffix)
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

    var isNeverAllowed: Bool { [.privateKey, .givenSecret, .feed].contains(self) }

    var rule: String {
        switch self {
        case .privateKey, .quotedKey: "private-key"
        case .givenSecret, .secrets: "secrets"
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
        case .givenSecret: "a file that this command reads a secret from"
        case .secrets: "passwords or keys"
        case .repository: "a repository"
        case .dependencies: "a folder of dependencies"
        case .feed: "the feed itself"
        case .otherFeed: "a feed"
        case .nativeCode(let system): "a native executable (\(system))"
        }
    }
}

/// Recognises programs of operating systems by their first bytes: a client is web content only.
enum NativeCode {
    /// The kind of executable that starts with `bytes`; nil for anything else.
    static func kind(of bytes: UnsafeRawBufferPointer) -> String? {
        guard bytes.count >= 8 else { return nil }
        switch bytes.loadUnaligned(as: UInt32.self).bigEndian {
        case 0x7F45_4C46: return "ELF"
        case 0xFEED_FACE, 0xFEED_FACF, 0xCEFA_EDFE, 0xCFFA_EDFE: return "Mach-O"
        // The same four bytes begin a Java class: then a version follows, 45 or more, here a few architectures.
        case 0xCAFE_BABE:
            return bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self).bigEndian < 45 ? "Mach-O" : nil
        default: return isPE(bytes) ? "PE" : nil
        }
    }

    /// "MZ" alone may be text; the header it points to is not (PE format, section "MS-DOS Stub").
    private static func isPE(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= 0x40, bytes[0] == UInt8(ascii: "M"), bytes[1] == UInt8(ascii: "Z") else { return false }
        let offset = Int(bytes.loadUnaligned(fromByteOffset: 0x3C, as: UInt32.self).littleEndian)
        guard offset <= bytes.count - 4 else { return false }
        return bytes[offset..<offset + 4].elementsEqual([0x50, 0x45, 0, 0])
    }
}
