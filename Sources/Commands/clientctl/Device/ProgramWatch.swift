import BundleCore
import BundleDisk
import BundleValues
import CLibrary

/// The process beside a program on trial. It confirms the start, or ends the program when its time is up.
struct ProgramWatch {
    private static let variable = "PROGRAM_WATCH"
    /// The descriptor of the socket that the program reports to.
    private static let socketDescriptor: Int32 = 3
    private static let gracePeriodMilliseconds: Int32 = 10_000

    private let process: Int32

    /// Returns nil in a process that is not a watch.
    init?(environment: Void) {
        guard let text = getenv(Self.variable), let process = Int32(String(cString: text)) else { return nil }
        self.process = process
    }

    /// Starts the watch of this process, which becomes the program. The watch is no child of the program, which may wait for its own.
    static func start(_ readiness: Readiness) throws {
        let arguments = CommandLine.arguments.dropFirst()
        let path = try ProgramVariables.ownProgram()
        SignalMask.clear()
        let socket = readiness == .notify ? try NotifyRelay.open() : nil
        defer { socket.map { _ = close($0.descriptor) } }
        setenv(variable, String(getpid()), 1)
        defer { unsetenv(variable) }
        // The shell ends at once, and leaves the watch to the first process.
        let words = ["/bin/sh", "-c", "\"$@\" &", "sh", path] + arguments
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, 2, 1)
        if let socket { posix_spawn_file_actions_adddup2(&actions, socket.descriptor, socketDescriptor) }
        var list: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for word in list { free(word) } }
        var child = pid_t()
        let code = posix_spawn(&child, "/bin/sh", &actions, nil, &list, environ)
        var status: Int32 = 0
        if code == 0 { while waitpid(child, &status, 0) < 0 && errno == EINTR {} }
        guard code == 0, status == 0 else {
            throw UpdateFailure(
                .resourcesExhausted, subject: "/bin/sh",
                "The watch of the program cannot be started (\(code), \(status)).")
        }
        if let socket { setenv(NotifyRelay.variable, socket.name, 1) }
    }

    /// Watches the program until it is confirmed, ends, or its time is up.
    func run(_ readiness: Readiness, within limit: Duration, of place: ProgramPlace) async throws {
        let version = ProgramVariables.runningVersion
        guard let version, let token = ProgramVariables.trialToken else { return }
        let watched: WatchedProcess
        do { watched = try WatchedProcess(process) } catch {
            // The program has ended already, so its next start finds a trial without a verdict.
            if error.code == ESRCH { return }
            throw error
        }
        let launcher = try place.launcher()
        if case .after(let time) = readiness {
            if !watched.hasEnded(within: Self.milliseconds(time)) { try launcher.confirm(version, token) }
            return
        }
        let relay = readiness == .notify ? NotifyRelay(Self.socketDescriptor) : nil
        let end = SuspendingClock().now + limit
        var isReady = false
        while true {
            let left = end - SuspendingClock().now
            // The relay passes messages on for the life of the program.
            let wait = isReady ? -1 : max(0, Self.milliseconds(left))
            if watched.hasEnded(within: wait, orReadable: relay?.descriptor ?? -1) { return }
            if relay?.pass() == true, !isReady {
                isReady = true
                do { try launcher.confirm(version, token) } catch { Output.warn(UpdateFailure(error).message) }
            }
            if !isReady, SuspendingClock().now >= end { break }
        }
        let reason = "it was not confirmed within \(DurationText(limit))"
        guard try launcher.fail(version, token, .notConfirmed, reason) else { return }
        Output.warn("the program \(version) is ended: \(reason)")
        watched.send(SIGTERM)
        if !watched.hasEnded(within: Self.gracePeriodMilliseconds) { watched.send(SIGKILL) }
    }

    private static func milliseconds(_ time: Duration) -> Int32 {
        Int32(
            clamping: (time / .milliseconds(1)).rounded(.up) < 2e9
                ? Int((time / .milliseconds(1)).rounded(.up)) : 2_000_000_000)
    }
}

/// Passes the messages of a program to the service manager, and notes READY=1.
struct NotifyRelay {
    static let variable = "NOTIFY_SOCKET"
    private static let longestMessage = 64 << 10

    let descriptor: Int32
    private let manager: String?

    init(_ descriptor: Int32) {
        self.descriptor = descriptor
        manager = getenv(Self.variable).map { String(cString: $0) }
    }

    /// Returns a socket in the abstract namespace, and its name for the program.
    static func open() throws(DiskError) -> (descriptor: Int32, name: String) {
        let name = "@clientctl-run-\(getpid())"
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0, withAddress(name, { bind(descriptor, $0, $1) }) == 0 else {
            throw DiskError("open", at: name, code: errno)
        }
        return (descriptor, name)
    }

    /// Passes the next message on, if there is one. Returns whether the program is ready.
    func pass() -> Bool {
        var message = [UInt8](repeating: 0, count: Self.longestMessage)
        let count = recv(descriptor, &message, message.count, Int32(MSG_DONTWAIT))
        guard count > 0 else { return false }
        if let manager {
            let sender = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
            defer { close(sender) }
            _ = Self.withAddress(manager) { sendto(sender, message, count, Int32(MSG_NOSIGNAL), $0, $1) }
        }
        return message[..<count].split(separator: UInt8(ascii: "\n")).contains { $0.elementsEqual("READY=1".utf8) }
    }

    /// Calls `body` with the address of `name`, where `@` begins a name in the abstract namespace.
    private static func withAddress<Answer: FixedWidthInteger>(
        _ name: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Answer
    ) -> Answer {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(name.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
            errno = ENAMETOOLONG
            return -1
        }
        if bytes.first == UInt8(ascii: "@") { bytes[0] = 0 }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let isAbstract = bytes.first == 0
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count + (isAbstract ? 0 : 1))
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
        }
    }
}
