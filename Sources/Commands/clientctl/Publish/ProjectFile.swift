import BundleDisk
import BundlePublish
import BundleSigning
import BundleValues
import CLibrary
import Synchronization

/// The settings of a project: flags of the commands that publish, in a file beside the build.
///
/// The file is found, not named, and every repository can contain one. So it sets only flags that neither start programs nor read
/// secrets nor leave its folder, unless the user of this machine has accepted it (`ProjectConsent`) or names it with `--config`.
enum ProjectFile {
    static let name = "clientctl.json"

    /// The commands that read the file. The commands of a device do not: `--channel`, for example, is an address for
    /// them.
    private static let commands: Set = ["publish", "release", "channel", "feed", "fleet", "trust", "keys", "console"]

    /// The flags of the file that a command ignores. In the file, they name private keys of releases and channels; commands of trust
    /// roots have flags of these names for public keys and root keys.
    static func ignoredFlags(for arguments: some Collection<String>) -> [String] {
        arguments.first == "trust" ? ["key", "channel-key"] : []
    }

    /// Returns whether `command` reads the file and the working folder does not have it.
    static func isMissing(for command: String?) -> Bool {
        command.map(commands.contains) == true && !File.exists(name)
    }

    /// Returns the path of the file in the working folder; nil if it does not exist or `arguments` name another command.
    static func path(for arguments: some Collection<String>) -> String? {
        guard let command = arguments.first, commands.contains(command), File.exists(name) else { return nil }
        return name
    }

    private static let used = Mutex(false)

    /// Whether the file, found rather than named, has set a flag of this run.
    static var isUsed: Bool { used.withLock(\.self) }

    /// Notes that the file has set the flag `flag` to `values`. Throws if the user has not accepted that.
    static func use(_ values: [String], for flag: String, isAccepted: Bool) throws {
        if !isAccepted, let failure = ProjectRule.judge(flag, values).failure(of: flag) { throw failure }
        used.withLock { $0 = true }
    }
}

/// Decides whether a project file may set a flag without the consent of the user.
enum ProjectRule: Equatable {
    case allowed
    /// The flag could start a program, read a secret, choose a server, or skip a check.
    case needsConsent
    /// The path is outside the folder of the file, perhaps through a link.
    case leavesFolder(path: String)
    /// The value is an address or a path, and the flag may only be a name.
    case isNoName(String)

    private enum Range {
        /// Any value; it describes a release or a channel.
        case value
        /// A name or a version, but no path or address.
        case name
        /// A path below the folder of the file.
        case path
        /// Such a path, or a bucket, which only the user's own keys can open.
        case feed
    }

    /// The flags that the file may set. Every other flag needs consent, so a new flag does, too.
    private static let ranges: [String: Range] = [
        "app-id": .value, "budget": .value, "copies": .value, "document-max-age": .value, "drop": .value,
        "exclude": .value, "expires-in": .value, "format": .value, "if-expires-within": .value, "json": .value,
        "keep": .value, "level": .value, "max-shell": .value, "min-shell": .value, "no-deltas": .value,
        "rollout": .value, "urgent": .value, "window-log": .value,
        "channel": .name, "delta-from": .name,
        "archive-maps": .path, "channel-key": .path, "key": .path, "notes": .path, "trust": .path,
        "feed": .feed,
    ]

    /// Judges `values` of `flag`. Paths are relative to the working folder, where the file is.
    static func judge(_ flag: String, _ values: [String]) -> ProjectRule {
        guard let range = ranges[flag] else { return .needsConsent }
        for value in values {
            switch range {
            case .value: continue
            case .name:
                if value.utf8.contains(where: { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: ":") }) {
                    return .isNoName(value)
                }
            case .feed where LocationAddress.isInBucket(value): continue
            case .path, .feed:
                if value.contains("://") || !isInside(value) { return .leavesFolder(path: value) }
            }
        }
        return .allowed
    }

    /// Returns the failure for `flag`; nil if it is allowed.
    func failure(of flag: String) -> UpdateFailure? {
        let reason =
            switch self {
            case .allowed: ""
            case .needsConsent: ", which could start a program, read a secret, choose a server or skip a check"
            case .leavesFolder(let path): " to \(UntrustedName.display(path)), which is not in its folder"
            case .isNoName(let value): " to \(UntrustedName.display(value)), which is not a name"
            }
        if reason.isEmpty { return nil }
        return UpdateFailure(
            .configInvalid, subject: "\(ProjectFile.name): \(flag)",
            "The file \(ProjectFile.name) in this folder sets \(flag)\(reason). The file may have come with a repository, so nothing was "
                + "done. Read it; if it is right, run `clientctl init --accept`, or name it with --config \(ProjectFile.name)."
        )
    }

    /// Returns true if `path`, with its links followed, is the working folder or in it. A part that does not exist yet is not a link.
    private static func isInside(_ path: String) -> Bool {
        let isAddress = path.prefix { $0 != "/" }.contains(":")
        guard !isAddress, let folder = real(".") else { return false }
        var place = path.hasPrefix("/") ? "/" : folder
        var isMissing = false
        for part in path.split(separator: "/") where part != "." {
            let next = "\(place)/\(part)"
            if isMissing || !File.exists(next) {
                if part == ".." { return false }
                (place, isMissing) = (next, true)
            } else if let found = real(next) {
                place = found
            } else {
                return false
            }
        }
        return place.utf8.elementsEqual(folder.utf8) || place.utf8.starts(with: "\(folder)/".utf8)
    }

    fileprivate static func real(_ path: String) -> String? {
        guard let found = realpath(path, nil) else { return nil }
        defer { free(found) }
        return String(validatingCString: found)
    }
}

/// The consent of the user of this machine to the project file of the working folder, with exactly its content. It is stored outside of
/// the project.
struct ProjectConsent {
    private static let folder = "projects"

    private let place: String
    private let file: String
    private let content: String

    /// The consent to the file with these bytes; nil if no place can store it.
    init?(to bytes: [UInt8]) {
        guard let state = StateFolder.path, let project = ProjectRule.real("."),
            let name = try? SHA256Digest.of(Array(project.utf8)).hex, let digest = try? SHA256Digest.of(bytes).hex
        else { return nil }
        (place, file, content) = ("\(state)/\(Self.folder)", "\(name.prefix(32))", "\(digest) \(project)\n")
    }

    /// Whether the user has accepted the file, and nobody else could have.
    var isGiven: Bool {
        guard let stored = try? File.open(reading: "\(place)/\(file)"),
            (try? OwnFile.require(stored, with: "settings")) != nil,
            let bytes = try? stored.readAll(maximumBytes: 64 << 10)
        else { return false }
        return bytes == Array(content.utf8)
    }

    func give() throws {
        try Directory.createAll(place, mode: 0o700)
        try Directory.open(place).replaceFile(file, with: Array(content.utf8), mode: 0o600)
    }
}
