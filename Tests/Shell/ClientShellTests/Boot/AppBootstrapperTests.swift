import BundleValues
import Glibc
import ClientShell
import Testing

struct AppBootstrapperTests {
    private static let failure = UpdateFailure(.configInvalid, subject: "store", "There is nothing to launch.")

    private static func minimum() throws -> SemanticVersion { try SemanticVersion(parsing: "2.0.0") }

    private static func routed(_ session: SessionStatus, _ readiness: LaunchReadiness = .ready) async -> [LaunchState] {
        let router = LaunchRouterSpy()
        await AppBootstrapper(
            restoreSession: RestoreSessionFake(session), prepareLaunch: PrepareLaunchFake(readiness), router: router
        ).start()
        return router.routedStates
    }

    @Test(arguments: [
        (SessionStatus.authenticated, LaunchState.authenticated),
        (.notRequired, .authenticated),
        (.unauthenticated(.ended(.signedOut)), .unauthenticated),
        (.unauthenticated(.ended(.expired)), .unauthenticated),
        (.unauthenticated(.ended(.rejected)), .unauthenticated),
        (.unauthenticated(.unreadable), .unauthenticated),
        (.locked(.byOperator), .locked),
        (.locked(.forMaintenance), .maintenance),
    ])
    func `routes each session to its state`(session: SessionStatus, state: LaunchState) async {
        #expect(await Self.routed(session) == [state])
    }

    @Test func `requires an update if the shell is too old for the best client`() async throws {
        let tooOld = LaunchReadiness.shellTooOld(minimum: try Self.minimum())
        for session in [SessionStatus.authenticated, .notRequired] {
            #expect(await Self.routed(session, tooOld) == [.updateRequired(minimum: try Self.minimum())])
        }
    }

    @Test func `hides a too old shell from guests and locked devices`() async throws {
        let tooOld = LaunchReadiness.shellTooOld(minimum: try Self.minimum())
        #expect(await Self.routed(.unauthenticated(.ended(.signedOut)), tooOld) == [.unauthenticated])
        #expect(await Self.routed(.locked(.byOperator), tooOld) == [.locked])
    }

    @Test(arguments: [SessionStatus.authenticated, .notRequired, .unauthenticated(.unreadable)])
    func `routes a failed preparation with its reason`(session: SessionStatus) async {
        #expect(await Self.routed(session, .failed(Self.failure)) == [.failure(reason: Self.failure)])
    }

    @Test func `reports the end of a session only if guests have no client`() async {
        let signedOut = SessionStatus.unauthenticated(.ended(.signedOut))
        #expect(await Self.routed(signedOut, .nothingForGuests(Self.failure)) == [.signedOut(reason: Self.failure)])
        #expect(await Self.routed(signedOut, .failed(Self.failure)) == [.failure(reason: Self.failure)])
        let unreadable = SessionStatus.unauthenticated(.unreadable)
        #expect(await Self.routed(unreadable, .nothingForGuests(Self.failure)) == [.failure(reason: Self.failure)])
    }

    @Test func `a lock takes precedence over a failure`() async {
        #expect(await Self.routed(.locked(.byOperator), .failed(Self.failure)) == [.locked])
        #expect(await Self.routed(.locked(.forMaintenance), .failed(Self.failure)) == [.maintenance])
    }

    @Test func `restores, prepares and routes once per start`() async {
        let session = RestoreSessionFake(.authenticated)
        let launch = PrepareLaunchFake()
        let router = LaunchRouterSpy()
        let bootstrapper = AppBootstrapper(restoreSession: session, prepareLaunch: launch, router: router)
        #expect(session.askedCount == 0)
        await bootstrapper.start()
        #expect(session.askedCount == 1)
        #expect(launch.preparedSessions == [.authenticated])
        #expect(router.routedStates.count == 1)
        await bootstrapper.start()
        #expect(session.askedCount == 2)
        #expect(router.routedStates == [.authenticated, .authenticated])
    }
}
