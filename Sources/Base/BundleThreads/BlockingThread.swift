import Glibc
import Synchronization

/// No thread could be started: the process or the system has too many.
package struct ThreadFailure: Error, Equatable, CustomStringConvertible {
    /// `errno` of pthread_create.
    package let code: Int32

    /// What happened and what to do.
    package var description: String {
        "no thread can be started (\(String(cString: strerror(code)))): raise the limit on processes, or free memory"
    }
}

/// A thread of the operating system, for work that blocks.
///
/// Swift's cooperative pool has one thread a core and Dispatch's pool has an upper bound, so work that waits for other such work
/// could wait for ever in either. Signals are for the program's own threads, so they are blocked here.
package final class BlockingThread: Sendable {
    private final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    private let thread: pthread_t
    private let isJoined = Atomic(false)

    /// Starts a thread that runs `body` once.
    package init(_ body: @escaping @Sendable () -> Void) throws(ThreadFailure) {
        let context = Unmanaged.passRetained(Body(body))
        var thread = pthread_t()
        let code = pthread_create(&thread, nil, Self.main, context.toOpaque())
        if code != 0 {
            context.release()
            throw ThreadFailure(code: code)
        }
        self.thread = thread
    }

    private static let main: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { context in
        blockSignals()
        if let context { Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run() }
        return nil
    }

    private static func blockSignals() {
        var signals = sigset_t()
        sigfillset(&signals)
        for fault in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT] { sigdelset(&signals, fault) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    /// One that nobody waited for ends by itself.
    deinit {
        if !isJoined.load(ordering: .relaxed) { pthread_detach(thread) }
    }

    /// Waits for the end of the thread, once. A thread cannot wait for itself, so it only lets go then.
    package func join() {
        if isJoined.exchange(true, ordering: .relaxed) { return }
        if pthread_equal(thread, pthread_self()) != 0 {
            pthread_detach(thread)
        } else {
            pthread_join(thread, nil)
        }
    }
}

/// Runs blocking work on a thread of its own and waits for it without blocking the caller's thread.
package func onThread<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        do {
            _ = try BlockingThread { continuation.resume(with: Result { try work() }) }
        } catch {
            continuation.resume(throwing: error)
        }
    }
}
