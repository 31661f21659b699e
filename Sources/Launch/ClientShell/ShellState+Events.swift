import BundleCore
import BundleValues

/// A client that is chosen and ready, as the state sees it.
protocol ReadyLaunch: Sendable {
    var name: ClientName { get }
}

/// A boot attempt, as the state sees it.
protocol BootAttempt: Sendable {
    associatedtype Prepared: ReadyLaunch

    var name: ClientName { get }
    var token: LaunchToken { get }
    var isTrial: Bool { get }
    var isRecorded: Bool { get }
    /// Whether a start of the client was reported as failed before.
    var wasReportedFailed: Bool { get }
}

extension PreparedLaunch: ReadyLaunch {
    var name: ClientName { choice.name }
}

extension Launched: BootAttempt {
    typealias Prepared = PreparedLaunch
}

extension ShellState {
    /// What happened, or what became of an action.
    enum Event {
        case start
        case admit(Audience)
        /// A session ended: no page is busy any more.
        case sessionEnded
        /// A page is about to load.
        case load(PageLoad)
        /// The store may have changed; `retrying` where what failed once may come back.
        case inspect(retrying: Bool)
        /// The same from time to time; a client that is ready `mayActivate` by itself.
        case tick(mayActivate: Bool)
        case reload
        case confirm(LaunchToken)
        case fail(LaunchToken, String)
        /// A page has failed, where that counts: on trial.
        case failTrial(LaunchToken, String)
        /// The page on the screen is lost: on trial the client has failed, unless no page has ever reported.
        case lose(LaunchToken, String)
        /// A page leaves for a place.
        case leave(LaunchToken, String, PageReport)
        case complain(LaunchToken, String, isGrave: Bool)
        case show(LaunchToken, Bool, PageReport?)
        /// Somebody is in the middle of something with a page, or no longer so; then a client that is ready `mayActivate` by itself.
        case busy(LaunchToken, Bool, PageReport, mayActivate: Bool)
        /// The process stood still for this time until now.
        case stoodStill(Duration)
        /// The moment that was asked for has come.
        case woken

        case inspected(Inspection, Sequel)
        case ready(Ready, Goal)
        case notReady(any Error, Goal)
        /// Nil where the client may not run any more.
        case began(Launch?, PageLoad)
        case notBegun(any Error)
        case written(Verdict, Launch, Writing)
    }

    /// What to do.
    enum Action {
        /// Settle what is owed, write down what was not, and read the store.
        case inspect(Request, Sequel)
        /// Choose a client where `goal` names none, and hand it to the web view where `goal` shows it. The clients of `without` come last.
        case prepare(Goal, forGuests: Bool, without: Set<ClientName>)
        /// Write the boot attempt down; one for guests is not.
        case begin(Prepared, forGuests: Bool, PageLoad)
        /// Write down that a page of the launch has reported.
        case note(Launch)
        /// Write a verdict down.
        case write(Verdict, Launch)
        /// Remove older clients.
        case retain
        case report(ShellEvent)
        /// Have the page loaded again.
        case reload
        /// Send `woken` at this reading of the clock, in place of any other one; nil: not at all.
        case wake(at: Duration?)
        /// Whoever asked is refused.
        case refuse(any Error)
    }

    /// A page that is about to load.
    struct PageLoad: Equatable {
        /// Whether somebody will see it, who gets the client that is ready.
        let takesNext: Bool
        /// Whether the client may be changed at this time.
        let mayChange: Bool
    }

    /// What was wanted, once the store has been read.
    enum Sequel: Equatable {
        case nothing
        case retry
        case activate
        case reload
        case load(PageLoad)

        /// Whether nobody waits for what comes of it.
        var isIdle: Bool {
            switch self {
            case .nothing, .retry, .activate: true
            case .reload, .load: false
            }
        }

        /// Whether a client that failed once may come back, though nobody asks for it.
        var isRetry: Bool { self == .retry }
    }

    /// What a client is made ready for.
    enum Goal {
        /// To be there when a page loads; nothing runs.
        case start(Start)
        /// To be changed to when somebody wants it.
        case next(Sequel)
        /// To be shown now, in place of the one that runs.
        case change(Prepared, Sequel)
        /// To be shown at once, in place of one that failed or must not run.
        case leave(Departure, Sequel)
    }

    /// Who wants a client where nothing runs.
    enum Start {
        case caller
        case audience
        case page(PageLoad)
        case inspection(Sequel)
    }

    /// Why a client is left.
    enum Departure {
        case failed(StartFailure)
        case recalled(String)
        /// No page has ever reported.
        case silent
    }

    /// What there is to know before the store is read.
    struct Request {
        let audience: ClientShell.Audience
        let running: ClientName?
        let owed: Debt?
        let unrecorded: Launch?
        /// Clients that come last, because their pages never reported.
        let silent: Set<ClientName>
    }

    /// What was found.
    struct Inspection {
        let isSettled: Bool
        let recorded: Launch?
        let store: Result<Store, any Error>
    }

    /// The store, as far as the state decides by it.
    struct Store {
        let ledger: Ledger
        let choice: SelectionRule.Choice?
        /// Whether that is to be shown as soon as it is ready.
        let isUrgent: Bool
        /// How long a page that is busy keeps the client from being changed.
        let busyLimit: Duration
        let missingShell: SemanticVersion?
        /// Why the client that runs must not.
        let recall: String?
    }

    /// A client that was made ready, and which shell a better one needs.
    struct Ready {
        let client: Prepared
        let missingShell: SemanticVersion?
    }

    /// What is said of a launch.
    enum Verdict: Equatable {
        case good
        case faulty(StartFailure)
        /// The shell itself takes its page away.
        case abandoned
    }

    /// What became of a verdict.
    enum Writing {
        /// It is on the disk; `wasKnown` where it had been before.
        case done(wasKnown: Bool)
        /// The disk takes no writes.
        case refused(UpdateFailure)
        case failed(any Error)
    }

    /// A verdict that the disk refused.
    struct Debt {
        let verdict: Verdict
        let launch: Launch
    }
}
