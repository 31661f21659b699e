public import BundleValues

/// Makes ready what may be shown to whoever uses the device.
public protocol PrepareLaunchUseCase: Sendable {
    /// Makes it ready for this session; what is ready already stays as it is. Nothing is shown yet.
    func execute(for session: SessionStatus) async -> LaunchReadiness
}

/// What could be made ready.
public enum LaunchReadiness: Sendable, Equatable {
    /// All that this session may see.
    case ready
    /// A client, but not the best one: that needs shell `minimum` or a newer one.
    case shellTooOld(minimum: SemanticVersion)
    /// Nothing.
    case failed(UpdateFailure)
}
