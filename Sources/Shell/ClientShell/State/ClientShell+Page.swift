public import BundleCore
public import BundleValues

// The calls of pages, and of the shell on their behalf.
extension ClientShell {
    /// Returns the launch of the page that is about to load: the running one, or a new one whose boot attempt has been written.
    ///
    /// With `takesNext`, a user loads the page to see it, so it shows the client that is ready. Outside the activation windows
    /// no load changes the client.
    public func pageWillLoad(takesNext: Bool = false) throws -> Launched {
        let mayChange = configuration.activation == nil || isInActivationWindow
        try handle(.load(.init(takesNext: takesNext, mayChange: mayChange)))
        guard let launched = state.launched else { throw ShellError.notStarted }
        return launched
    }

    /// Confirms the start of the launch with `token`. Throws for any other token.
    public func startupDidComplete(_ token: LaunchToken) async throws { try handle(.page(.confirm, token)) }

    /// Fails the launch with `token`, which the shell saw fail. A launch that no longer runs is ignored.
    public func startupDidFail(_ token: LaunchToken, _ what: String) { send(.page(.fail(what), token)) }

    /// Applies a failure that a page reports itself. It is valid on trial only, and once for each client; otherwise it throws.
    public func pageDidFail(_ token: LaunchToken, _ what: String) throws { try handle(.page(.failTrial(what), token)) }

    /// Records that the page is no longer on the screen. A client on trial has failed, unless no page has ever reported to this
    /// shell: then another client is shown without a verdict.
    public func pageIsLost(_ token: LaunchToken, _ what: String) { send(.page(.lose(what), token)) }

    /// Records that the page leaves for `place`. On trial, another page of the client has to follow.
    public func pageDidLeave(_ token: LaunchToken, for place: String, _ report: PageReport) {
        send(.page(.leave(UntrustedName.display(place), report), token))
    }

    /// Records that the connection of a page ended without a report, so its window was closed or its process ended. On trial,
    /// another page of the client has to follow a visible one.
    package func pageDidVanish(_ token: LaunchToken, load: String) { send(.page(.vanish(load), token)) }

    /// Reports a page error as an event, each text once. The first grave errors are kept as failure details until the page
    /// confirms its start.
    public func pageDidReport(_ token: LaunchToken, _ pageError: String, isGrave: Bool = true) {
        send(.page(.error(UntrustedName.display(pageError, limit: 400), isGrave: isGrave), token))
    }

    /// Records that the page is hidden. The startup time is paused while all pages are. A `report` is valid if it is the newest
    /// of its page.
    public func pageDidHide(_ token: LaunchToken, _ report: PageReport? = nil) {
        send(.page(.show(false, report), token))
    }

    /// Records that the page is visible again.
    public func pageDidShow(_ token: LaunchToken, _ report: PageReport? = nil) {
        send(.page(.show(true, report), token))
    }

    /// Marks the page busy or idle. A busy page delays changes of the client for as long as its channel allows, or ten minutes
    /// if the channel sets no limit.
    public func pageIsBusy(_ token: LaunchToken, _ isBusy: Bool, _ report: PageReport) {
        send(.page(.busy(isBusy, report, mayActivate: isInActivationWindow), token))
    }

    /// The running client; nil before the first page.
    public var currentVersion: ClientName? { state.launched?.name }

    /// The client that the next page load launches or shows.
    public var nextLaunch: ClientName? { state.prepared?.name }

    /// Returns whether `token` belongs to the running launch.
    public func isCurrent(_ token: LaunchToken) -> Bool { state.launched?.token == token }

    /// Whether another client is ready to be shown. Uses no network.
    public var isUpdateAvailable: Bool { state.next != nil }

    /// The client that `reload` would show.
    public var availableVersion: ClientName? { state.next?.name }

    /// The shell version that the best installed or offered client needs, if this shell is older.
    public var missingShell: SemanticVersion? {
        [state.missingShell, offerFailure?.neededShell].compactMap(\.self).max()
    }

    /// Shows the client that is ready. Throws `noPendingVersion` if there is none.
    public func reload() throws { try handle(.reload) }

    /// Returns the names of the clients that could be shown. The seed is first, if the shell has one.
    public func clientNames() throws -> [ClientName] {
        (hasSeed ? [.embedded] : []) + (try launcher.inventory().bundles.map(\.name))
    }

    /// Returns the application ID of the running Meteor bundle, or of the seed; nil if neither is a Meteor bundle.
    public func meteorAppId() throws -> String? { try launcher.inventory().ledger.meteorFacts?.appId }

    /// Returns the running or prepared client and its index page; nil if there is none.
    public func shownPage() throws -> (name: ClientName, page: [UInt8])? {
        try state.prepared.map { ($0.name, try $0.client.root.page()) }
    }

    /// Returns a client without launching it; nil if it is not installed or must not run.
    public func client(named name: ClientName) throws -> ReadyClient? { try launcher.ready(name) }
}
