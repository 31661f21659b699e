import BundleDisk
import CLibrary
import Synchronization

/// Signals that would end the program, deferred while it restores something first, such as the terminal.
package struct HeldSignals: Sendable {
    private struct Registration {
        var users = 0
        let before: sigaction
    }

    /// Several callers can defer the same signal at once.
    private static let registrations = Mutex<[Int32: Registration]>([:])
    /// One bit for each signal that arrived.
    private static let arrived = Atomic<UInt64>(0)

    private let bits: UInt64

    /// Whether one of the signals arrived. The caller that defers them should then finish soon.
    package var arePending: Bool { Self.arrived.load(ordering: .relaxed) & bits != 0 }

    /// Runs `body` and delivers each of the signals that arrived during it afterwards. Signal numbers are below 64.
    /// Ignored signals stay ignored.
    package static func holding<Answer>(
        _ numbers: [Int32], during body: (HeldSignals) throws -> Answer
    ) rethrows -> Answer {
        let held = HeldSignals(bits: numbers.reduce(0) { $0 | bit($1) })
        // Initializes the static, which a signal handler must not do.
        _ = held.arePending
        registrations.withLock { registrations in
            for number in numbers { hold(number, in: &registrations) }
        }
        defer { release(numbers) }
        return try body(held)
    }

    private static func bit(_ number: Int32) -> UInt64 { 1 << UInt64(number) }

    private static func hold(_ number: Int32, in registrations: inout [Int32: Registration]) {
        if registrations[number] == nil {
            var before = sigaction()
            sigaction(number, nil, &before)
            registrations[number] = Registration(before: before)
            let handler = unsafeBitCast(before.__sigaction_handler.sa_handler, to: Int.self)
            if handler != unsafeBitCast(SIG_IGN, to: Int.self) {
                var action = sigaction()
                action.__sigaction_handler.sa_handler = { number in
                    HeldSignals.arrived.bitwiseOr(HeldSignals.bit(number), ordering: .relaxed)
                }
                sigaction(number, &action, nil)
            }
        }
        registrations[number]?.users += 1
    }

    private static func release(_ numbers: [Int32]) {
        let late = registrations.withLock { registrations in
            numbers.filter { number in
                registrations[number]?.users -= 1
                guard let last = registrations[number], last.users == 0 else { return false }
                var before = last.before
                sigaction(number, &before, nil)
                registrations[number] = nil
                return arrived.bitwiseAnd(~bit(number), ordering: .relaxed).oldValue & bit(number) != 0
            }
        }
        for number in late { deliver(number) }
    }

    /// Delivers the signal on this thread before it returns, although the thread can block signals otherwise.
    private static func deliver(_ number: Int32) {
        var signals = sigset_t()
        var before = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, number)
        pthread_sigmask(SIG_UNBLOCK, &signals, &before)
        raise(number)
        if EndingSignals.handles(number) { while true { pause() } }
        pthread_sigmask(SIG_SETMASK, &before, nil)
    }
}
