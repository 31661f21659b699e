import ArchiveSource
import BundleDisk
import BundleValues
import Glibc

/// What lies in a built folder by mistake and would be given to every device.
struct ForeignContent: Equatable {
    enum Kind: Equatable {
        case privateKey, secrets, repository, dependencies, feed
        case nativeCode(String)
    }

    let kind: Kind
    /// Of the file or folder, printable.
    let path: String

    /// Refuses the folder `source` with all of it that is neither excluded nor allowed; a private key and the feed never are
    /// allowed.
    static func refuse(in source: String, feed: String?, _ options: ReleaseOptions) throws {
        var found: [ForeignContent] = []
        var options = options
        if options.drops.contains(.junk) { options.excluded += FolderRule.junk }
        if let feed, let path = path(of: feed, in: source), !options.excluded.contains(where: { $0.covers(path) }) {
            found.append(ForeignContent(kind: .feed, path: path.isEmpty ? feed : UntrustedName.display(path)))
        }
        try search(Directory.open(source), prefix: [], options, into: &found)
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
        _ folder: Directory, prefix: [UInt8], _ options: ReleaseOptions, into found: inout [ForeignContent]
    ) throws {
        for entry in try folder.entries().sorted(by: { $0.name.lexicographicallyPrecedes($1.name) }) {
            let path = prefix + entry.name
            if options.excluded.contains(where: { $0.matches(path) }) { continue }
            let isAllowed = options.allowed.contains { $0.covers(path) }
            // A name that is no text is refused with its rule, when the client is listed.
            guard let name = String(validating: entry.name, as: UTF8.self) else { continue }
            if !isAllowed, let kind = Kind(ofName: name) {
                found.append(ForeignContent(kind: kind, path: UntrustedName.display(path)))
            } else if entry.kind == .directory {
                try search(folder.directory(name), prefix: path + [UInt8(ascii: "/")], options, into: &found)
            } else if entry.kind == .file {
                let head = try folder.file(name).head(headBytes)
                guard let kind = Kind(ofContent: head), kind.isNeverAllowed || !isAllowed else { continue }
                found.append(ForeignContent(kind: kind, path: UntrustedName.display(path)))
            }
        }
    }

    /// Where the feed lies in `source`, whether it is there yet or not; nil where it lies elsewhere.
    private static func path(of feed: String, in source: String) -> [UInt8]? {
        guard let top = resolved(source), let place = resolved(feed) else { return nil }
        if place == top { return [] }
        let prefix = top == "/" ? top : top + "/"
        return place.hasPrefix(prefix) ? Array(place.utf8.dropFirst(prefix.utf8.count)) : nil
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

    /// A key may stand behind a certificate.
    private static let headBytes = 16 << 10
}

extension ForeignContent.Kind {
    init?(ofName name: String) {
        switch name {
        case ".git", ".hg", ".svn", ".bzr": self = .repository
        case "node_modules", "bower_components": self = .dependencies
        case ".env", ".ssh", ".gnupg", ".aws", ".npmrc", ".netrc", ".pypirc", ".htpasswd": self = .secrets
        default:
            let isSecret =
                name.hasPrefix(".env.")
                || [".p12", ".pfx", ".jks", ".keystore", ".kdbx"].contains(where: name.lowercased().hasSuffix)
            guard isSecret else { return nil }
            self = .secrets
        }
    }

    init?(ofContent head: [UInt8]) {
        if Self.isPrivateKey(head) {
            self = .privateKey
        } else if let system = head.withUnsafeBytes(NativeCode.kind) {
            self = .nativeCode(system)
        } else {
            return nil
        }
    }

    /// PEM and what else has a key as text. A script or a page that quotes one has code or markup before it.
    private static func isPrivateKey(_ head: [UInt8]) -> Bool {
        for line in head.split(separator: UInt8(ascii: "\n")) {
            let text = String(decoding: line.prefix(128), as: UTF8.self)
            if text.hasPrefix("-----BEGIN ") && text.contains("PRIVATE KEY") || text.hasPrefix("AGE-SECRET-KEY-")
                || text.hasPrefix("PuTTY-User-Key-File-")
                || text.hasPrefix("untrusted comment:") && text.contains("secret key")
            {
                return true
            }
            if line.contains(where: "<{`\"'".utf8.contains) { return false }
        }
        return false
    }

    var isNeverAllowed: Bool { self == .privateKey || self == .feed }

    var rule: String {
        switch self {
        case .privateKey: "private-key"
        case .secrets: "secrets"
        case .repository: "repository"
        case .dependencies: "dependencies"
        case .feed: "feed"
        case .nativeCode: "native-code"
        }
    }

    var words: String {
        switch self {
        case .privateKey: "a private key"
        case .secrets: "passwords or keys"
        case .repository: "a repository"
        case .dependencies: "a folder of dependencies"
        case .feed: "the feed itself"
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
