import BundleTestTraits
import BundleValues
import Glibc
import Synchronization
import Testing

/// Uses signals that no other test uses.
@Suite("HeldSignals", .ownThread) struct HeldSignalsTests {
    private static let received = Atomic<Int>(0)

    @Test func `delivers a signal when the last caller stops deferring it`() {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in HeldSignalsTests.received.add(1, ordering: .relaxed) }
        var before = sigaction()
        _ = Self.received.load(ordering: .relaxed)
        sigaction(SIGUSR2, &action, &before)
        defer { sigaction(SIGUSR2, &before, nil) }
        HeldSignals.holding([SIGUSR2]) { outer in
            HeldSignals.holding([SIGUSR2, SIGURG]) { inner in
                #expect(!inner.arePending)
                kill(getpid(), SIGUSR2)
                // Another thread can receive the signal.
                for _ in 0..<6000 where !inner.arePending { usleep(10_000) }
                #expect(inner.arePending && outer.arePending)
            }
            #expect(outer.arePending && Self.received.load(ordering: .relaxed) == 0)
        }
        // The signal is delivered on this thread at once, so that no later code of a program runs first.
        #expect(Self.received.load(ordering: .relaxed) == 1)
        // The signal is no longer pending.
        HeldSignals.holding([SIGUSR2]) { #expect(!$0.arePending) }
    }

    @Test func `keeps ignored signals ignored`() {
        let before = signal(SIGUSR1, SIG_IGN)
        defer { signal(SIGUSR1, before) }
        HeldSignals.holding([SIGUSR1]) { held in
            // Sends it to the process, because this thread blocks signals.
            kill(getpid(), SIGUSR1)
            usleep(100_000)
            #expect(!held.arePending)
        }
    }
}
