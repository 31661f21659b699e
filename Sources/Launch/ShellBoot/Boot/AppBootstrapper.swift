/// Boots the shell: restores the session, prepares the launch, and has what follows from both shown, once for each start.
///
/// Orchestration and nothing else: what a session is worth, whether there is something to launch and what a state looks like
/// is decided by those it asks. It stays under 60 lines and without a branch, for ever.
public struct AppBootstrapper: Sendable {
    private let restoreSession: any RestoreSessionUseCase
    private let prepareLaunch: any PrepareLaunchUseCase
    private let router: any LaunchRouting

    /// Wires the two use cases and the router.
    public init(
        restoreSession: any RestoreSessionUseCase, prepareLaunch: any PrepareLaunchUseCase, router: any LaunchRouting
    ) {
        self.restoreSession = restoreSession
        self.prepareLaunch = prepareLaunch
        self.router = router
    }

    /// Boots. May be called again when something may have changed.
    public func start() async {
        let session = await restoreSession.execute()
        let readiness = await prepareLaunch.execute(for: session)
        await router.route(to: LaunchState(session: session, readiness: readiness))
    }
}
