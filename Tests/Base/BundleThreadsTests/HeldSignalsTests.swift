import BundleTestTraits
import BundleThreads
import Glibc
import Synchronization
import Testing

/// With signals that nothing else here uses.
@Suite(.ownThread) struct HeldSignalsTests {
    private static let heard = Atomic<Int>(0)

    @Test func `take effect when the last one who holds them back is ready`() {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in HeldSignalsTests.heard.add(1, ordering: .relaxed) }
        var before = sigaction()
        _ = Self.heard.load(ordering: .relaxed)
        sigaction(SIGUSR2, &action, &before)
        defer { sigaction(SIGUSR2, &before, nil) }
        HeldSignals.holding([SIGUSR2]) { outer in
            HeldSignals.holding([SIGUSR2, SIGURG]) { inner in
                #expect(!inner.haveCome)
                kill(getpid(), SIGUSR2)
                // Another thread may be the one that is interrupted.
                for _ in 0..<6000 where !inner.haveCome { usleep(10_000) }
                #expect(inner.haveCome && outer.haveCome)
            }
            #expect(outer.haveCome && Self.heard.load(ordering: .relaxed) == 0)
        }
        // At once, though this thread hears none as a rule: what comes next in a program must not come before its end.
        #expect(Self.heard.load(ordering: .relaxed) == 1)
        // What came is over.
        HeldSignals.holding([SIGUSR2]) { #expect(!$0.haveCome) }
    }

    @Test func `stay ignored where they are`() {
        let before = signal(SIGUSR1, SIG_IGN)
        defer { signal(SIGUSR1, before) }
        HeldSignals.holding([SIGUSR1]) { held in
            // To the process: this thread hears no signals.
            kill(getpid(), SIGUSR1)
            usleep(100_000)
            #expect(!held.haveCome)
        }
    }
}
