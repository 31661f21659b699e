import BundleDisk
import Glibc
import Synchronization
import Testing

/// A program under test with its own environment, and separate output and errors.
///
/// It is killed and reaped with its last reference, or reaped after a wait for its end.
package final class Program: Sendable {
    /// The end of a program and its output.
    package struct Ending: Sendable {
        /// The exit status; nil if a signal ended the program.
        package let status: Int32?
        package let signal: Int32?
        package let output: [UInt8]
        package let errors: String

        /// The output as text.
        package var text: String { String(decoding: output, as: UTF8.self) }
    }

    /// The variables that `Scripts/prove/mutate` and sanitizers set for all programs.
    private static let measuring = ["SWAP_CLIENTS_MUTANT", "ASAN_OPTIONS"]
        .reduce(into: [String: String]()) { if let value = getenv($1) { $0[$1] = String(cString: value) } }

    private let process: pid_t
    private let output: Int32
    private let errors: Int32
    /// The end of the program after it is reaped. Its number can then belong to another process.
    private let ending = Mutex<Ending?>(nil)

    /// Starts `arguments[0]` from the path, in `folder` if it is given, without standard input.
    package init(_ arguments: [String], environment: [String: String], in folder: String? = nil) throws {
        try Self.mayStart(arguments)
        output = try Self.unnamedFile()
        errors = try Self.unnamedFile()
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        posix_spawn_file_actions_adddup2(&actions, errors, 2)
        try OpenFiles.keep(from: 3, outOf: &actions)
        let line = (folder.map { ["env", "-C", $0] } ?? []) + arguments
        var argv: [UnsafeMutablePointer<CChar>?] = line.map { strdup($0) } + [nil]
        let all = Self.measuring.merging(environment) { $1 }
        var settings: [UnsafeMutablePointer<CChar>?] = all.map { strdup("\($0)=\($1)") } + [nil]
        defer { for text in argv + settings { free(text) } }
        var process = pid_t()
        let code = posix_spawnp(&process, line.first ?? "", &actions, nil, &argv, &settings)
        guard code == 0 else {
            close(output)
            close(errors)
            throw SystemCallError("cannot start \(arguments.first ?? "nothing")", code: code)
        }
        self.process = process
    }

    deinit {
        if ending.withLock({ $0 == nil }) {
            kill(process, SIGKILL)
            waitpid(process, nil, 0)
        }
        close(output)
        close(errors)
    }

    /// Runs a program and waits for its end.
    package static func run(
        _ arguments: [String], environment: [String: String], in folder: String? = nil
    ) throws -> Ending {
        try Program(arguments, environment: environment, in: folder).wait()
    }

    /// Sends a signal unless the program has ended.
    package func send(_ signal: Int32) {
        ending.withLock { ending in
            if ending == nil { kill(process, signal) }
        }
    }

    /// Kills the process group that the program leads. The end of the program alone would leave its other processes running.
    package func killGroup() {
        ending.withLock { ending in
            if ending == nil { kill(-process, SIGKILL) }
        }
    }

    /// The number of the process.
    package var number: Int32 { process }

    /// Returns the folders of its threads in /proc.
    package func threads() throws -> [String] {
        let parent = "/proc/\(process)/task"
        guard let folder = opendir(parent) else { throw SystemCallError("opendir") }
        defer { closedir(folder) }
        var threads: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { threads.append("\(parent)/\(name)") }
        }
        return threads
    }

    /// Returns the kernel's status of each thread, without threads that end during the call.
    package func threadStatuses() throws -> [String] {
        try threads().compactMap { thread in
            do {
                return String(decoding: try BundleTesting.contents(ofFile: "\(thread)/status"), as: UTF8.self)
            } catch  where access(thread, F_OK) != 0 {
                return nil
            }
        }
    }

    /// Returns the output so far.
    package func printed() throws -> (output: String, errors: String) {
        let output = String(decoding: try Self.contents(of: output), as: UTF8.self)
        return (output, String(decoding: try Self.contents(of: errors), as: UTF8.self))
    }

    /// Waits for the end, at most `limit`. Returns nil if the program still runs.
    package func wait(within limit: Duration) throws -> Ending? {
        let deadline = ContinuousClock.now + limit
        while ContinuousClock.now < deadline {
            if let ending = try reap() { return ending }
            poll(nil, 0, 10)
        }
        return nil
    }

    /// Waits for the end.
    package func wait() throws -> Ending {
        while true {
            var info = siginfo_t()
            // The first caller reaps the process; another one waits for the lock only briefly.
            let code = waitid(P_PID, id_t(process), &info, WEXITED | WNOWAIT)
            guard code == 0 || errno == EINTR || errno == ECHILD else { throw SystemCallError("waitid") }
            if let ending = try reap() { return ending }
        }
    }

    /// Returns the end, or nil if the program still runs.
    private func reap() throws -> Ending? {
        try ending.withLock { ending in
            if let ending { return ending }
            var info = siginfo_t()
            guard waitid(P_PID, id_t(process), &info, WEXITED | WNOWAIT | WNOHANG) == 0 else {
                throw SystemCallError("waitid")
            }
            guard info._sifields._sigchld.si_pid == process else { return nil }
            let number = info._sifields._sigchld.si_status
            let exited = info.si_code == CLD_EXITED
            let output = try Self.contents(of: output)
            let errors = String(decoding: try Self.contents(of: errors), as: UTF8.self)
            ending = Ending(
                status: exited ? number : nil, signal: exited ? nil : number, output: output, errors: errors)
            waitpid(process, nil, 0)
            return ending
        }
    }

    /// Whether `process`, started by another program, ends within a minute. A killed process exists until its parent
    /// reaps it.
    package static func hasEnded(_ process: Int32) -> Bool {
        let deadline = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < deadline {
            guard let stat = try? BundleTesting.contents(ofFile: "/proc/\(process)/stat"),
                !String(decoding: stat, as: UTF8.self).contains(") Z ")
            else { return true }
            poll(nil, 0, 10)
        }
        return false
    }

    /// Cancels the test in a fast run (`Scripts/test --fast`), which starts no programs.
    static func mayStart(_ arguments: [String]) throws {
        guard getenv("SWAP_CLIENTS_NO_PROGRAMS") != nil else { return }
        try Test.cancel("starts \(arguments.first ?? "a program")")
    }

    private static func unnamedFile() throws -> Int32 {
        var template = Array("/tmp/bundle-tests.XXXXXX".utf8CString)
        let descriptor = mkstemp(&template)
        guard descriptor >= 0 else { throw SystemCallError("mkstemp") }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        unlink(template)
        return descriptor
    }

    private static func contents(of descriptor: Int32) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65536)
        while true {
            let count = pread(descriptor, &chunk, chunk.count, off_t(bytes.count))
            guard count >= 0 else { throw SystemCallError("pread") }
            if count == 0 { return bytes }
            bytes += chunk[..<count]
        }
    }
}
