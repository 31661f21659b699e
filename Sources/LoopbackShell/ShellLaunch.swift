import BundleCore
public import ClientShell
public import ShellBoot

/// Makes a client ready for whoever uses the device: every client for those that are signed in, the seed for guests, none behind a
/// lock.
public struct ShellLaunch: PrepareLaunchUseCase {
    private let shell: ClientShell

    /// For the clients of `shell`.
    public init(_ shell: ClientShell) {
        self.shell = shell
    }

    /// Leaves what others have been shown, and makes ready what is for this session.
    public func execute(for session: SessionStatus) async -> LaunchReadiness {
        do {
            try await shell.admit(Self.audience(of: session))
            return await shell.missingShell.map { .shellTooOld(minimum: $0) } ?? .ready
        } catch {
            return .failed(UpdateFailure(error))
        }
    }

    private static func audience(of session: SessionStatus) -> ClientShell.Audience {
        switch session {
        case .notRequired, .authenticated: .everybody
        case .unauthenticated: .guests
        case .locked: .nobody
        }
    }
}
