/// Boots the shell: restores the session, prepares the launch, and routes to the resulting state.
///
/// It only orchestrates. Its collaborators decide whether a session is valid, whether there is a client to launch,
/// and what a state looks like.
public struct AppBootstrapper: Sendable {
    private let restoreSession: any RestoreSessionUseCase
    private let prepareLaunch: any PrepareLaunchUseCase
    private let router: any LaunchRouting

    /// Creates a bootstrapper with its collaborators.
    public init(
        restoreSession: any RestoreSessionUseCase, prepareLaunch: any PrepareLaunchUseCase, router: any LaunchRouting
    ) {
        self.restoreSession = restoreSession
        self.prepareLaunch = prepareLaunch
        self.router = router
    }

    /// Boots the shell. The caller repeats it after possible changes.
    public func start() async {
        let session = await restoreSession.execute()
        await router.route(to: await prepareLaunch.execute(for: session))
    }
}
