import BundleValues

/// Watches one trial. The timeout runs only while the shell shows the client.
///
/// Times are readings of a clock of the caller, as durations since a fixed moment.
package struct StartupWatchdog: Sendable, Equatable {
    package enum WatchdogEvent: Sendable, Equatable {
        /// The shell shows the client on trial.
        case started
        /// The shell hides the client: it is in the background, asleep, or shows another page.
        case paused
        /// The shell shows the client again.
        case resumed
        /// The client confirmed its start.
        case confirmed
        /// The requested wake-up time was reached.
        case woken
        /// The client needs at least this much of its time from now on.
        case extended(Duration)
    }

    /// The caller's next action.
    package enum WatchdogAction: Sendable, Equatable {
        /// Send `woken` at this reading of the clock. A later request replaces an earlier one.
        case wake(at: Duration)
        /// Cancel the wake-up.
        case sleep
        /// End the trial with this verdict.
        case settle(HealthVerdict)
    }

    private enum WatchdogState: Sendable, Equatable {
        case idle
        case waiting(until: Duration)
        case paused(left: Duration)
        case over
    }

    private let timeout: StartupTimeout
    private var state = WatchdogState.idle

    package init(timeout: StartupTimeout) {
        self.timeout = timeout
    }

    /// Handles `event` at the clock's reading `now`. Returns nil for an event that the present state does not expect.
    package mutating func handle(_ event: WatchdogEvent, at now: Duration) -> WatchdogAction? {
        switch (state, event) {
        case (.idle, .started): return wait(timeout.duration, from: now)
        case (.waiting(let end), .paused):
            state = .paused(left: max(.zero, end - now))
            return .sleep
        case (.paused(let left), .resumed): return wait(left, from: now)
        case (.waiting(let end), .woken) where now < end: return .wake(at: end)
        case (.waiting(let end), .extended(let least)): return wait(max(least, end - now), from: now)
        case (.paused(let left), .extended(let least)):
            state = .paused(left: max(least, left))
            return nil
        case (.waiting, .woken):
            return settle(
                .faulty(.notConfirmed, "the page did not call startupDidComplete() within \(shownTimeout)"))
        case (.waiting, .confirmed), (.paused, .confirmed): return settle(.healthy)
        default: return nil
        }
    }

    private var shownTimeout: String { DurationText(timeout.duration).description }

    private mutating func wait(_ left: Duration, from now: Duration) -> WatchdogAction {
        state = .waiting(until: now + left)
        return .wake(at: now + left)
    }

    private mutating func settle(_ verdict: HealthVerdict) -> WatchdogAction {
        state = .over
        return .settle(verdict)
    }
}

/// The result of a trial.
package enum HealthVerdict: Sendable, Equatable {
    case healthy
    case faulty(StartFailure.Cause, String)
}
