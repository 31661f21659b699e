import BundleCore
import BundleValues

/// A selected client that is ready, as `ShellState` needs it.
protocol ReadyLaunch: Sendable {
    var name: ClientName { get }
}

/// A boot attempt, as `ShellState` needs it. Tests use attempts without a store.
protocol BootAttempt: Sendable {
    associatedtype Prepared: ReadyLaunch

    var name: ClientName { get }
    var token: LaunchToken { get }
    var isTrial: Bool { get }
    var isRecorded: Bool { get }
    /// Whether a page reported an earlier start of the client as failed.
    var wasReportedFailed: Bool { get }
    /// Whether endpoints have to answer before the start is confirmed.
    var requiresEndpoints: Bool { get }
}

extension PreparedLaunch: ReadyLaunch {
    var name: ClientName { choice.name }
}

extension Launched: BootAttempt {
    typealias Prepared = PreparedLaunch

    var requiresEndpoints: Bool { prepared.client.endpoints != nil }
}

extension ShellState {
    /// A request to the shell, or the result of an action.
    enum Event {
        case start
        case admit(Audience)
        /// A session ended, so no page is busy.
        case sessionEnded
        /// A page is about to load.
        case load(PageLoad)
        /// The store may have changed. With `retrying`, a client that failed once may be selected again.
        case inspect(retrying: Bool)
        /// The periodic reading of the store. With `mayActivate`, a client that is ready may replace the running one. With `request`, an
        /// operator waits until that client is shown.
        case tick(mayActivate: Bool, request: ActivationRequest? = nil)
        case reload
        /// A page of the launch with this token, or the shell on its behalf, reported something.
        case page(PageInput, LaunchToken)
        /// The process was suspended for this time until now.
        case stalled(Duration)
        /// The time of `Action.setTimer` has come.
        case timerFired
        /// The result of `Action.checkHealth` for the launch with this token.
        case healthChecked(HealthResult, LaunchToken)

        case inspected(Inspection, Sequel)
        case ready(Ready, Goal)
        case notReady(any Error, Goal)
        /// The launch is nil if the client may no longer run.
        case began(Launch?, PageLoad)
        case notBegun(any Error)
        case written(Verdict, Launch, Writing)
    }

    /// An event of one page.
    enum PageInput {
        case confirm
        /// The shell saw the page fail.
        case fail(String)
        /// The page reported its own failure. It is valid on trial only.
        case failTrial(String)
        /// The page is no longer on the screen. It fails a client on trial, unless no page has ever reported.
        case lose(String)
        /// The page leaves for a place.
        case leave(String, PageReport)
        /// The connection of this page load ended without a report.
        case vanish(String)
        case error(String, isGrave: Bool)
        case show(Bool, PageReport?)
        /// The page is busy, or no longer. When it becomes idle and `mayActivate` is set, a client that is ready is shown.
        case busy(Bool, PageReport, mayActivate: Bool)
    }

    /// An instruction to the caller.
    enum Action {
        /// Write a pending verdict and an unrecorded launch, then read the store.
        case inspect(ReadingRequest, Sequel)
        /// Select a client unless `goal` names one, and pass it to the web view if `goal` shows it. The clients in `without` come last.
        case prepare(Goal, forGuests: Bool, without: Set<ClientName>)
        /// Record the boot attempt. An attempt for guests is not recorded.
        case begin(Prepared, forGuests: Bool, PageLoad)
        /// Check the health of the launch, whose page has confirmed its start.
        case checkHealth(Launch)
        /// Record that a page of the launch has reported.
        case recordReport(Launch)
        case write(Verdict, Launch)
        /// Remove older clients.
        case retain
        case report(ShellEvent)
        /// Reload the page.
        case reload
        /// Send `timerFired` at this reading of the clock instead of an earlier request; nil cancels it.
        case setTimer(at: Duration?)
        /// Throw this error to the caller of the event.
        case refuse(any Error)
    }

    /// A page that is about to load.
    struct PageLoad: Equatable {
        /// Whether a user will see the page. Such a load shows the client that is ready.
        let takesNext: Bool
        /// Whether an activation window is open.
        let mayChange: Bool
    }

    /// The step after a reading of the store.
    enum Sequel: Equatable {
        case nothing
        case retry
        case activate
        case request(ActivationRequest)
        case reload
        case load(PageLoad)

        /// Whether no caller waits for the result.
        var isIdle: Bool {
            switch self {
            case .nothing, .retry, .activate, .request: true
            case .reload, .load: false
            }
        }
    }

    /// The reason why a client is prepared.
    enum Goal {
        /// For the next page load, while nothing runs.
        case start(Start)
        /// As a replacement that a user may request.
        case next(Sequel)
        /// As the replacement of the running client, now.
        case change(Prepared, Sequel)
        /// As the replacement of a client that failed or must not run.
        case leave(Departure, Sequel)
    }

    /// The origin of a request for a client while nothing runs.
    enum Start {
        case caller
        case audience
        case page(PageLoad)
        case inspection(Sequel)
    }

    /// The reason why a client is replaced.
    enum Departure {
        case failed(StartFailure)
        case recalled(String)
        /// No page has ever reported.
        case silent
    }

    /// The input for a reading of the store.
    struct ReadingRequest {
        let audience: ClientShell.Audience
        let running: ClientName?
        let pending: PendingVerdict?
        let unrecorded: Launch?
        /// Clients that come last, because their pages never reported.
        let silent: Set<ClientName>
    }

    /// The result of a reading of the store.
    struct Inspection {
        /// Whether the pending verdict needs no further attempt.
        let isSettled: Bool
        let recorded: Launch?
        let store: Result<Store, any Error>
    }

    /// The facts of the store that decisions use.
    struct Store {
        let ledger: Ledger
        let choice: SelectionRule.Choice?
        /// Whether `choice` is shown as soon as it is ready.
        let isUrgent: Bool
        /// The time for which a busy page delays a change.
        let busyLimit: Duration
        let missingShell: SemanticVersion?
        /// The reason why the running client must not run; nil if it may.
        let recall: String?
    }

    /// A prepared client, and the shell version that a better one needs.
    struct Ready {
        let client: Prepared
        let missingShell: SemanticVersion?
    }

    /// The verdict on a launch.
    enum Verdict: Equatable {
        case good
        case faulty(StartFailure)
        /// The shell itself ended the launch.
        case abandoned
    }

    /// The result of writing a verdict.
    enum Writing {
        /// The verdict is on the disk. It was there before if `wasKnown`.
        case done(wasKnown: Bool, Consequence? = nil)
        /// The disk accepts no writes.
        case refused(UpdateFailure)
        case failed(any Error)
    }

    /// The consequence of a failed start for an installed client.
    enum Consequence: Equatable {
        /// The client is tried once more.
        case retried
        /// The client has failed `count` times and does not run again.
        case blocked(count: Int)
    }

    /// A verdict that the disk refused.
    struct PendingVerdict {
        let verdict: Verdict
        let launch: Launch
    }
}
