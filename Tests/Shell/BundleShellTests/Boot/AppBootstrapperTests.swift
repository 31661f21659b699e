import BundleValues
import Glibc
import BundleShell
import Testing

struct AppBootstrapperTests {
    private static let failure = UpdateFailure(.configInvalid, subject: "store", "There is nothing to launch.")

    private static func minimum() throws -> SemanticVersion { try SemanticVersion(parsing: "2.0.0") }

    @Test(arguments: [
        (SessionStatus.authenticated, LaunchState.client),
        (.notRequired, .client),
        (.unauthenticated(.ended(.signedOut)), .guests),
        (.unauthenticated(.ended(.expired)), .guests),
        (.unauthenticated(.ended(.rejected)), .guests),
        (.unauthenticated(.unreadable), .guests),
        (.locked(.byOperator), .locked),
        (.locked(.forMaintenance), .maintenance),
    ])
    func `a session with a client has its own state`(session: SessionStatus, state: LaunchState) {
        #expect(LaunchState(session) == state)
    }

    @Test func `requires an update if the shell is too old for the best client`() throws {
        let minimum = try Self.minimum()
        for session in [SessionStatus.authenticated, .notRequired] {
            #expect(LaunchState(session, missingShell: minimum) == .updateRequired(minimum: minimum))
        }
    }

    @Test func `hides a too old shell from guests and locked devices`() throws {
        let minimum = try Self.minimum()
        #expect(LaunchState(.unauthenticated(.ended(.signedOut)), missingShell: minimum) == .guests)
        #expect(LaunchState(.locked(.byOperator), missingShell: minimum) == .locked)
    }

    private static func without(
        _ session: SessionStatus, hasSeed: Bool = true, isWaiting: Bool = false
    ) -> LaunchState {
        LaunchState(session, without: failure, hasSeed: hasSeed, isWaiting: isWaiting)
    }

    @Test(arguments: [SessionStatus.authenticated, .notRequired, .unauthenticated(.unreadable)])
    func `a failed preparation has its reason`(session: SessionStatus) {
        #expect(Self.without(session) == .failure(reason: Self.failure))
    }

    @Test func `waits for the first client only if it is not for guests`() {
        #expect(Self.without(.notRequired, hasSeed: false, isWaiting: true) == .waiting(reason: Self.failure))
        let guests = SessionStatus.unauthenticated(.ended(.expired))
        #expect(Self.without(guests, hasSeed: false, isWaiting: true) == .signedOut(reason: Self.failure))
    }

    @Test func `reports the end of a session only if guests have no client`() {
        let signedOut = SessionStatus.unauthenticated(.ended(.signedOut))
        #expect(Self.without(signedOut, hasSeed: false) == .signedOut(reason: Self.failure))
        #expect(Self.without(signedOut) == .failure(reason: Self.failure))
        #expect(Self.without(.unauthenticated(.unreadable), hasSeed: false) == .failure(reason: Self.failure))
    }

    @Test func `a lock takes precedence over a failure`() {
        #expect(Self.without(.locked(.byOperator)) == .locked)
        #expect(Self.without(.locked(.forMaintenance)) == .maintenance)
    }

    @Test func `restores, prepares and routes once per start`() async {
        let session = RestoreSessionFake(.authenticated)
        let launch = PrepareLaunchFake(.client)
        let router = LaunchRouterSpy()
        let bootstrapper = AppBootstrapper(restoreSession: session, prepareLaunch: launch, router: router)
        #expect(session.askedCount == 0)
        await bootstrapper.start()
        #expect(session.askedCount == 1)
        #expect(launch.preparedSessions == [.authenticated])
        #expect(router.routedStates.count == 1)
        await bootstrapper.start()
        #expect(session.askedCount == 2)
        #expect(router.routedStates == [.client, .client])
    }
}
