import BundleDisk
import Glibc

/// A program that runs beside a test; killed and reaped with its last reference.
package final class Command: Sendable {
    private let process: pid_t
    private let output: Int32

    /// Starts `arguments[0]`, found on the path, with its output and its errors on one pipe.
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

    /// The next line it prints, without the line end; what there is at the end of the output.
    package func nextLine() -> String {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while read(output, &byte, 1) == 1, byte != UInt8(ascii: "\n") { line.append(byte) }
        return String(decoding: line, as: UTF8.self)
    }

    /// Runs a program to its end; any other end than exit 0 is an error with what it printed.
    package static func run(_ arguments: [String]) throws {
        let command = try Command(arguments)
        let printed = command.rest()
        var info = siginfo_t()
        // Leaves the process to be reaped by `deinit`.
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

/// A program that did not do what a test needs.
package struct CommandError: Error {
    /// The program and its arguments.
    package let command: [String]
    /// What it printed.
    package let printed: String
}
