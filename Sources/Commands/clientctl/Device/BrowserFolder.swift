import BundleDisk
import BundleValues
import CLibrary

/// The choice of the folder for a browser's profile.
enum SessionProfile: String {
    /// An empty folder for each session.
    case fresh
    /// One folder for all sessions.
    case keep
}

/// A folder for the profile of one browser.
///
/// The folder has a mark, which is locked while the browser may run. Only folders with an unlocked mark are removed, which killed programs
/// left. Folders of an operator have no mark. The profile is a folder next to the mark.
final class BrowserFolder: Sendable {
    private static let mark = "clientctl-browser"

    /// The path of the profile.
    let profile: String
    private let parent: Directory
    private let name: String
    private let lock: FileLock

    /// Creates the folder for the browser of the server at `port`: an empty one if `isFresh`, otherwise the lasting one. Removes folders that
    /// earlier browsers of this port left, and also the lasting one if a fresh one `replacesLasting`. Throws `DiskError` or `UpdateFailure` if
    /// the folder cannot be created.
    init(forPort port: Int, isFresh: Bool, replacesLasting: Bool) throws {
        let place = try Self.place
        try Directory.createAll(place, mode: 0o700)
        parent = try Directory.open(place)
        let lasting = "browser-\(port)"
        name = isFresh ? randomName("\(lasting)-") : lasting
        for other in try parent.list() {
            let isLasting = other == lasting && isFresh && replacesLasting
            if isLasting || other.hasPrefix("\(lasting)-") { try? Self.removeLeftover(other, in: parent) }
        }
        let folder = try parent.directory(creating: name, mode: 0o700)
        guard try folder.permissions() == (geteuid(), 0o700), let lock = try FileLock.take(Self.mark, in: folder) else {
            throw UpdateFailure(
                .configInvalid, subject: folder.path,
                "\(folder.path) is in use by another program or user. End that program, or choose another port with --port."
            )
        }
        self.lock = lock
        _ = try folder.directory(creating: "profile", mode: 0o700)
        profile = "\(place)/\(name)/profile"
    }

    /// The state folder of the service or of the user.
    fileprivate static var place: String {
        get throws {
            func variable(_ name: String) -> String? {
                getenv(name).map { String(cString: $0) }.flatMap { $0.hasPrefix("/") ? $0 : nil }
            }
            // systemd separates folders by colons.
            if let folder = variable("STATE_DIRECTORY")?.split(separator: ":").last { return String(folder) }
            if let folder = variable("XDG_STATE_HOME") { return "\(folder)/clientctl" }
            if let home = variable("HOME") { return "\(home)/.local/state/clientctl" }
            throw UpdateFailure(
                .configInvalid, subject: "HOME",
                "No folder is set for the browser's profile. Set STATE_DIRECTORY, XDG_STATE_HOME or HOME.")
        }
    }

    private static func removeLeftover(_ name: String, in parent: Directory) throws {
        guard case .directory? = try parent.kind(of: name) else { return }
        let folder = try parent.directory(name)
        guard case .file? = try folder.kind(of: mark), let lock = try FileLock.take(mark, in: folder) else { return }
        try parent.removeTree(name)
        withExtendedLifetime(lock) {}
    }

    /// Removes the folder. Tries for 2 seconds, because a process of the browser may still write to it. Throws `DiskError` if that fails; the
    /// next start removes the rest.
    func remove() throws {
        for _ in 0..<20 {
            do throws(DiskError) {
                return try parent.removeTree(name)
            } catch {
                usleep(100_000)
            }
        }
        try parent.removeTree(name)
    }
}

/// A folder that identifies the browsers of one `clientctl kiosk`, so that the next one can end those that a killed one left.
final class KioskMark: Sendable {
    /// The path of the folder.
    let path: String
    private let lock: FileLock

    /// Creates the folder for the browsers of the server at `port`. Returns nil if another `clientctl kiosk` of this user has it, for a second
    /// screen. Throws if there is no place for it.
    init?(port: Int) throws {
        path = "\(try BrowserFolder.place)/kiosk-\(port)"
        try Directory.createAll(path, mode: 0o700)
        guard let lock = try FileLock.take("lock", in: Directory.open(path)) else { return nil }
        self.lock = lock
    }
}
