import Glibc
import Synchronization

/// Signals that end this program, held back while it must put something in order first.
package struct HeldSignals: Sendable {
    private struct Taken {
        var users = 0
        let before: sigaction
    }

    /// Several may hold the same back at once.
    private static let taken = Mutex<[Int32: Taken]>([:])
    /// A bit for each that has come.
    private static let come = Atomic<UInt64>(0)

    private let bits: UInt64

    /// Whether one of them has come, so that whoever holds them back is to end soon.
    package var haveCome: Bool { Self.come.load(ordering: .relaxed) & bits != 0 }

    /// Runs `body`; a signal of `numbers`, each below 64, that comes meanwhile takes effect afterwards. One that this program ignores
    /// stays ignored.
    package static func holding<Answer>(
        _ numbers: [Int32], during body: (HeldSignals) throws -> Answer
    ) rethrows -> Answer {
        let held = HeldSignals(bits: numbers.reduce(0) { $0 | bit($1) })
        // The first use of a static makes it, which a handler must not do.
        _ = held.haveCome
        taken.withLock { taken in
            for number in numbers { hold(number, in: &taken) }
        }
        defer { release(numbers) }
        return try body(held)
    }

    private static func bit(_ number: Int32) -> UInt64 { 1 << UInt64(number) }

    private static func hold(_ number: Int32, in taken: inout [Int32: Taken]) {
        if taken[number] == nil {
            var before = sigaction()
            sigaction(number, nil, &before)
            taken[number] = Taken(before: before)
            let handler = unsafeBitCast(before.__sigaction_handler.sa_handler, to: Int.self)
            if handler != unsafeBitCast(SIG_IGN, to: Int.self) {
                var action = sigaction()
                action.__sigaction_handler.sa_handler = { number in
                    HeldSignals.come.bitwiseOr(HeldSignals.bit(number), ordering: .relaxed)
                }
                sigaction(number, &action, nil)
            }
        }
        taken[number]?.users += 1
    }

    private static func release(_ numbers: [Int32]) {
        let late = taken.withLock { taken in
            numbers.filter { number in
                taken[number]?.users -= 1
                guard let last = taken[number], last.users == 0 else { return false }
                var before = last.before
                sigaction(number, &before, nil)
                taken[number] = nil
                return come.bitwiseAnd(~bit(number), ordering: .relaxed).oldValue & bit(number) != 0
            }
        }
        for number in late { take(number) }
    }

    /// Has `number` take effect before this returns, in this thread, which may hear none as a rule.
    private static func take(_ number: Int32) {
        var signals = sigset_t()
        var before = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, number)
        pthread_sigmask(SIG_UNBLOCK, &signals, &before)
        raise(number)
        pthread_sigmask(SIG_SETMASK, &before, nil)
    }
}
