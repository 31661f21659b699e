import BundleValues

/// Watches one trial: events in, actions out. It counts only while the shell shows the client.
///
/// Time comes in as the reading of a clock that the caller chose, as a duration since any fixed moment of it.
package struct StartupWatchdog: Sendable, Equatable {
    /// What happened.
    package enum Event: Sendable, Equatable {
        /// The client on trial is shown.
        case started
        /// The shell no longer shows it: in the background, asleep, or on another page.
        case paused
        /// The shell shows it again.
        case resumed
        /// It confirmed its start.
        case confirmed
        /// The moment that was asked for has come.
        case woken
    }

    /// What to do.
    package enum Action: Sendable, Equatable {
        /// Send `woken` at this reading of the clock; a later wake-up replaces an earlier one.
        case wake(at: Duration)
        /// No wake-up is needed any more.
        case sleep
        /// The trial is over.
        case settle(HealthVerdict)
    }

    private enum State: Sendable, Equatable {
        case idle
        case waiting(until: Duration)
        case paused(left: Duration)
        case over
    }

    private let timeout: StartupTimeout
    private var state = State.idle

    /// A watchdog for one trial.
    package init(timeout: StartupTimeout) {
        self.timeout = timeout
    }

    /// Takes in `event` at the clock's reading `now`. What makes no sense in the present state changes nothing.
    package mutating func handle(_ event: Event, at now: Duration) -> Action? {
        switch (state, event) {
        case (.idle, .started): return wait(timeout.duration, from: now)
        case (.waiting(let end), .paused):
            state = .paused(left: max(.zero, end - now))
            return .sleep
        case (.paused(let left), .resumed): return wait(left, from: now)
        case (.waiting(let end), .woken) where now < end: return .wake(at: end)
        case (.waiting, .woken):

            return settle(
                .faulty(.notConfirmed, "the page did not call startupDidComplete() within \(shownTimeout)"))
        case (.waiting, .confirmed), (.paused, .confirmed): return settle(.healthy)
        default: return nil
        }
    }

    private var shownTimeout: String { DurationText(timeout.duration).description }

    private mutating func wait(_ left: Duration, from now: Duration) -> Action {
        state = .waiting(until: now + left)
        return .wake(at: now + left)
    }

    private mutating func settle(_ verdict: HealthVerdict) -> Action {
        state = .over
        return .settle(verdict)
    }
}

/// How a trial ended.
package enum HealthVerdict: Sendable, Equatable {
    case healthy
    case faulty(StartFailure.Cause, String)
}
