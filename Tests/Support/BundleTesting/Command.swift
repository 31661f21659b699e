import BundleDisk
import Glibc

/// A program that runs during a test. It is killed and reaped with its last reference.
package final class Command: Sendable {
    private let process: pid_t
    private let output: Int32

    /// Starts `arguments[0]` from the path, with output and errors on one pipe.
    package init(_ arguments: [String]) throws {
        try Program.mayStart(arguments)
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw SystemCallError("pipe") }
        defer { close(ends[1]) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for stream in [1, 2] as [Int32] { posix_spawn_file_actions_adddup2(&actions, ends[1], stream) }
        try OpenFiles.keep(from: 3, outOf: &actions)
        var argv: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for argument in argv { free(argument) } }
        var process = pid_t()
        let code = posix_spawnp(&process, arguments.first ?? "", &actions, nil, &argv, environ)
        guard code == 0 else {
            close(ends[0])
            throw SystemCallError("cannot start \(arguments.first ?? "nothing")", code: code)
        }
        self.process = process
        output = ends[0]
    }

    deinit {
        kill(process, SIGKILL)
        waitpid(process, nil, 0)
        close(output)
    }

    /// Returns the next line of output without its line feed, or the rest at the end.
    package func nextLine() -> String {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while read(output, &byte, 1) == 1, byte != UInt8(ascii: "\n") { line.append(byte) }
        return String(decoding: line, as: UTF8.self)
    }

    /// Runs a program. Throws an error with its output unless the exit status is 0.
    package static func run(_ arguments: [String]) throws {
        let command = try Command(arguments)
        let printed = command.rest()
        var info = siginfo_t()
        // `deinit` reaps the process.
        guard waitid(P_PID, id_t(command.process), &info, WEXITED | WNOWAIT) == 0 else {
            throw SystemCallError("waitid")
        }
        guard info.si_code == CLD_EXITED, info._sifields._sigchld.si_status == 0 else {
            throw CommandError(command: arguments, printed: printed)
        }
    }

    private func rest() -> String {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(output, &chunk, chunk.count)
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += chunk[..<count]
        }
    }
}

/// A program failed.
package struct CommandError: Error {
    package let command: [String]
    package let printed: String
}
