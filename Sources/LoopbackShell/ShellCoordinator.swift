public import ShellBoot
import Synchronization

/// Answers for what a browser on this machine sees: which state is which page.
public final class ShellCoordinator: Coordinator, LaunchRouting {
    private let host: LoopbackHost
    private let report: @Sendable (any Error) -> Void
    private let shown = Mutex<LaunchState?>(nil)

    /// For the pages of `host`; `report` hears why a state cannot be shown.
    public init(_ host: LoopbackHost, report: @escaping @Sendable (any Error) -> Void) {
        self.host = host
        self.report = report
    }

    /// What is shown; nil before anything was routed to.
    public var state: LaunchState? { shown.withLock { $0 } }

    /// Nothing of a client is shown until something is routed to.
    public func start() async { _ = isShown(.page(.starting)) }

    /// Shows `state`; pages that are open load themselves again. One that cannot be shown is tried again with the next.
    public func route(to state: LaunchState) async {
        guard self.state != state, isShown(Self.scene(for: state)) else { return }
        shown.withLock { $0 = state }
    }

    private func isShown(_ scene: Scene) -> Bool {
        do {
            try host.show(scene)
            return true
        } catch {
            report(error)
            return false
        }
    }

    private static func scene(for state: LaunchState) -> Scene {
        switch state {
        case .authenticated: .client(nil)
        case .unauthenticated: .guests
        case .locked: .page(.locked)
        case .updateRequired(let minimum): .client(UpdateNotice(minimum: minimum))
        case .maintenance: .page(.maintenance)
        case .failure(let reason): .page(.failure(reason))
        }
    }
}
