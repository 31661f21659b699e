import Glibc
import Synchronization

/// The terminal of this process, for a question whose answer is not shown. The keys that end a program end this one.
struct Terminal: ~Copyable {
    /// Those that end a program, or stop it.
    private static let signals = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP]
    private static let caught = Atomic<Int32>(0)

    private let descriptor: Int32

    /// nil where there is none.
    init?() {
        descriptor = open("/dev/tty", O_RDWR | O_CLOEXEC)
        if descriptor < 0 { return nil }
    }

    deinit { close(descriptor) }

    /// The line that is typed, without its end; nil where the input ends instead.
    func ask(_ question: String) -> [UInt8]? {
        var shown = termios()
        guard tcgetattr(descriptor, &shown) == 0 else { return nil }
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO)
        // What ends the program must not leave its terminal dumb.
        Self.caught.store(0, ordering: .relaxed)
        let before = Self.signals.map { number in
            var action = sigaction()
            action.__sigaction_handler.sa_handler = { Terminal.caught.store($0, ordering: .relaxed) }
            var old = sigaction()
            sigaction(number, &action, &old)
            return old
        }
        tcsetattr(descriptor, TCSAFLUSH, &hidden)
        write(question)
        let line = readLine()
        tcsetattr(descriptor, TCSAFLUSH, &shown)
        write("\n")
        for (number, var old) in zip(Self.signals, before) { sigaction(number, &old, nil) }
        let signal = Self.caught.load(ordering: .relaxed)
        if signal != 0 { kill(getpid(), signal) }
        return line
    }

    private func readLine() -> [UInt8]? {
        var line: [UInt8] = []
        while Self.caught.load(ordering: .relaxed) == 0 {
            // Another thread may be the one that is interrupted.
            var polled = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            if poll(&polled, 1, 100) <= 0 { continue }
            var byte: UInt8 = 0
            let count = Glibc.read(descriptor, &byte, 1)
            if count < 0 && errno == EINTR { continue }
            if count <= 0 { return nil }
            if byte == UInt8(ascii: "\n") { return line }
            if line.count < 4096 { line.append(byte) }
        }
        return nil
    }

    private func write(_ text: String) {
        let bytes = Array(text.utf8)
        _ = Glibc.write(descriptor, bytes, bytes.count)
    }
}
