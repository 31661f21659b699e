import BundleDisk
import Glibc
import Synchronization

/// A headless Chromium with its own folder. It is killed with its last reference, including its child processes.
final class BrowserProcess: Sendable {
    /// The descriptor for commands and messages, closed with the process.
    let commands: Int32
    let messages: Int32

    let folder: TemporaryFolder
    private let process: pid_t
    private let isStopped = Atomic(false)

    static let executable: String? = {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        for name in ["chromium", "chromium-browser", "google-chrome"] {
            for folder in path.split(separator: ":") where access("\(folder)/\(name)", X_OK) == 0 {
                return "\(folder)/\(name)"
            }
        }
        return nil
    }()

    private static let flags = [
        "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
        "--no-default-browser-check", "--disable-extensions", "--disable-background-networking",
        "--disable-component-update", "--disable-default-apps", "--disable-sync", "--disable-breakpad",
        "--disable-dev-shm-usage", "--disable-renderer-backgrounding", "--disable-background-timer-throttling",
        "--disable-backgrounding-occluded-windows", "--metrics-recording-only", "--mute-audio", "--no-proxy-server",
        "--password-store=basic", "--use-mock-keychain", "--window-size=800,600",
        // Otherwise each page starts one more process for a next page that no test opens.
        "--disable-features=SpareRendererForSitePerProcess", "about:blank",
    ]

    init() throws {
        guard let executable = Self.executable else { throw BrowserError.notInstalled }
        try Program.mayStart([executable])
        folder = try TemporaryFolder()
        let outgoing = try Self.socketPair()
        defer { close(outgoing.theirs) }
        commands = outgoing.ours
        let incoming = try Self.socketPair()
        defer { close(incoming.theirs) }
        messages = incoming.ours

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, folder.file("log"), O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        posix_spawn_file_actions_adddup2(&actions, outgoing.theirs, 3)
        posix_spawn_file_actions_adddup2(&actions, incoming.theirs, 4)
        try OpenFiles.keep(from: 5, outOf: &actions)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP))
        posix_spawnattr_setpgroup(&attributes, 0)

        var argv: [UnsafeMutablePointer<CChar>?] =
            Self.arguments(executable, in: folder.path).map { strdup($0) } + [nil]
        var environment: [UnsafeMutablePointer<CChar>?] = Self.settings(in: folder.path).map { strdup($0) } + [nil]
        defer { for text in argv + environment { free(text) } }
        var process = pid_t()
        let code = posix_spawn(&process, executable, &actions, &attributes, &argv, &environment)
        guard code == 0 else {
            close(commands)
            close(messages)
            throw SystemCallError("cannot start \(executable)", code: code)
        }
        self.process = process
    }

    static func settings(in folder: String) -> [String] {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        return [
            "PATH=\(path)", "HOME=\(folder)", "TMPDIR=\(folder)", "LC_ALL=C.UTF-8",
            "DBUS_SESSION_BUS_ADDRESS=unix:path=/dev/null", "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/dev/null",
        ]
    }

    static func arguments(_ executable: String, in folder: String) -> [String] {
        [executable, "--user-data-dir=\(folder)/profile"] + flags
    }

    deinit {
        stop()
        close(commands)
        close(messages)
    }

    /// Kills the browser and its children and waits for their end. A second call does nothing.
    func stop() {
        // After the process is reaped, its number can belong to another one.
        if isStopped.exchange(true, ordering: .relaxed) { return }
        kill(-process, SIGKILL)
        waitpid(process, nil, 0)
        shutdown(messages, Int32(SHUT_RDWR))
        // The crash handler leaves the process group, but has the folder in its arguments.
        for _ in 0..<400 {
            let left = processes
            if left.isEmpty { return }
            for process in left { kill(process, SIGKILL) }
            poll(nil, 0, 5)
        }
    }

    /// The running processes of this browser.
    var processes: [pid_t] {
        var found: [pid_t] = []
        guard let listing = opendir("/proc") else { return [] }
        defer { closedir(listing) }
        while let entry = readdir(listing) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard let number = pid_t(name), number != getpid(), belongs(number) else { continue }
            found.append(number)
        }
        return found
    }

    private func belongs(_ number: pid_t) -> Bool {
        // A process without arguments has ended but is not reaped yet.
        guard let arguments = try? readWhole("/proc/\(number)/cmdline"), !arguments.isEmpty else { return false }
        return getpgid(number) == process || String(decoding: arguments, as: UTF8.self).contains(folder.path)
    }

    /// The last lines of the output.
    var lastLines: String {
        let text = String(decoding: (try? readWhole(folder.file("log"))) ?? [], as: UTF8.self)
        return text.split(separator: "\n").suffix(5).joined(separator: " | ")
    }

    private func readWhole(_ path: String) throws -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw SystemCallError("open") }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16384)
        while case let count = read(descriptor, &chunk, chunk.count), count > 0 { bytes += chunk[..<count] }
        return bytes
    }

    /// Returns sockets, because a write to a pipe without a reader would end the tests. Both descriptors are above 9,
    /// because 3 and 4 are used.
    private static func socketPair() throws -> (ours: Int32, theirs: Int32) {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw SystemCallError("socketpair") }
        defer { for end in ends { close(end) } }
        let ours = fcntl(ends[0], F_DUPFD_CLOEXEC, 10)
        let theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, 10)
        guard ours >= 0, theirs >= 0 else { throw SystemCallError("fcntl") }
        return (ours, theirs)
    }
}
