import CLibrary
import Synchronization

/// A thread could not be started because of a limit of the process or the system.
package struct ThreadFailure: Error, Equatable, CustomStringConvertible {
    /// The error number of pthread_create.
    package let code: Int32

    package var description: String {
        "a thread could not be started (\(String(cString: strerror(code)))): raise the limit on processes, or free memory"
    }
}

/// An operating system thread for blocking work.
///
/// Swift's cooperative pool has one thread per core, and Dispatch limits its pool too. Work that waits for other work in
/// the same pool could deadlock. The thread blocks all signals, which only the program's own threads handle.
package final class BlockingThread: Sendable {
    private final class ThreadBody: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    private let thread: pthread_t
    private let isJoined = Atomic(false)

    package init(_ body: @escaping @Sendable () -> Void) throws(ThreadFailure) {
        let context = Unmanaged.passRetained(ThreadBody(body))
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
        if let context { Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run() }
        return nil
    }

    private static func blockSignals() {
        var signals = sigset_t()
        sigfillset(&signals)
        for fault in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT] { sigdelset(&signals, fault) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    /// Detaches a thread that was not joined.
    deinit {
        if !isJoined.load(ordering: .relaxed) { pthread_detach(thread) }
    }

    /// Waits until the thread ends. The first call waits; later calls return at once. On the thread itself, it detaches
    /// the thread instead.
    package func join() {
        if isJoined.exchange(true, ordering: .relaxed) { return }
        if pthread_equal(thread, pthread_self()) != 0 {
            pthread_detach(thread)
        } else {
            pthread_join(thread, nil)
        }
    }
}

/// Runs blocking work on a new thread and suspends the caller until it ends.
package func onThread<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        do {
            _ = try BlockingThread { continuation.resume(with: Result { try work() }) }
        } catch {
            continuation.resume(throwing: error)
        }
    }
}
