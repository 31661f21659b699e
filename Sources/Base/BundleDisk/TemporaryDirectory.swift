import CLibrary
import Synchronization

/// A private folder that is removed when the value is deinitialized, or when SIGTERM, SIGINT or SIGHUP ends the program.
package final class TemporaryDirectory: Sendable {
    /// The folder, with mode 0700.
    package let directory: Directory
    private let parent: Directory
    private let name: String

    /// The folder for temporary files: `$TMPDIR` or `/tmp`.
    package static var parentPath: String { getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp" }

    package init(in parent: String = TemporaryDirectory.parentPath) throws(DiskError) {
        self.parent = try Directory.open(parent)
        name = randomName("clientctl-")
        try self.parent.makeDirectory(name, mode: 0o700)
        directory = try self.parent.directory(name)
        EndingSignals.remove(name, in: self.parent)
    }

    deinit {
        try? parent.removeTree(name)
        EndingSignals.keep(name)
    }
}

/// Removes folders when SIGTERM, SIGINT or SIGHUP ends the program.
///
/// The signal handler only writes to a pipe. A thread reads the pipe, removes the folders and ends the program. A handler that the program
/// sets itself, such as that of a prompt for a passphrase, replaces this one until the program resets it.
package enum EndingSignals {
    /// The names of the folders, each with its parent.
    private static let folders = Mutex<[String: Directory]>([:])
    private static let pipeEnd = Atomic<Int32>(-1)
    /// The address of the handler.
    private static let installed = Atomic<Int>(0)
    /// Handles the signals from the first use on. Without a pipe or a thread, they end the program and leave the folders.
    private static let begun: Void = start()

    /// Removes the folder `name` in `parent` if a signal ends the program before `keep(name)`. The name must be unique in the program.
    package static func remove(_ name: String, in parent: Directory) {
        begun
        folders.withLock { $0[name] = parent }
    }

    /// Keeps the folder `name` when a signal ends the program later. Does not return if one is ending it now.
    package static func keep(_ name: String) { folders.withLock { $0[name] = nil } }

    /// Returns whether the thread below ends the program by the signal `number`. A caller that has raised it waits for that end.
    package static func handles(_ number: Int32) -> Bool {
        var action = sigaction()
        sigaction(number, nil, &action)
        let handler = unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
        return handler != 0 && handler == installed.load(ordering: .relaxed)
    }

    private static func start() {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        pipeEnd.store(ends[1], ordering: .relaxed)
        var thread = pthread_t()
        let reader = UnsafeMutableRawPointer(bitPattern: Int(ends[0]))
        let body: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { context in
            EndingSignals.wait(on: Int32(Int(bitPattern: context)))
            return nil
        }
        guard pthread_create(&thread, nil, body, reader) == 0 else { return }
        pthread_detach(thread)
        for number in [SIGTERM, SIGINT, SIGHUP] { handle(number) }
    }

    private static func handle(_ number: Int32) {
        var action = sigaction()
        sigaction(number, nil, &action)
        guard unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 0 else { return }
        action.sa_flags = SA_RESTART
        action.__sigaction_handler.sa_handler = { number in
            let before = errno
            var byte = UInt8(truncatingIfNeeded: number)
            _ = CLibrary.write(EndingSignals.pipeEnd.load(ordering: .relaxed), &byte, 1)
            errno = before
        }
        installed.store(unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self), ordering: .relaxed)
        sigaction(number, &action, nil)
    }

    /// Waits for the first signal, removes the folders, and ends the program by that signal. Other threads cannot keep a folder after that, so
    /// none is kept that is removed in part.
    private static func wait(on descriptor: Int32) {
        var signals = sigset_t()
        sigfillset(&signals)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        var byte: UInt8 = 0
        while read(descriptor, &byte, 1) != 1 {}
        let number = Int32(byte)
        folders.withLock { folders in
            // Another thread may still write to them.
            for _ in 0..<5 where !folders.isEmpty {
                folders = folders.filter { name, parent in (try? parent.removeTree(name)) == nil }
            }
            signal(number, SIG_DFL)
            var ending = sigset_t()
            sigemptyset(&ending)
            sigaddset(&ending, number)
            pthread_sigmask(SIG_UNBLOCK, &ending, nil)
            kill(getpid(), number)
            while true { pause() }
        }
    }
}

/// Returns `prefix` with 64 random bits in hexadecimal.
package func randomName(_ prefix: String) -> String {
    let digits = String(UInt64.random(in: .min ... .max), radix: 16)
    return prefix + String(repeating: "0", count: 16 - digits.count) + digits
}
