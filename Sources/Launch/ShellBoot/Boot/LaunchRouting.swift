/// A shell's promise to show a state.
public protocol LaunchRouting: Sendable {
    /// Shows `state` in place of what was shown before; the state that is shown already stays as it is.
    func route(to state: LaunchState) async
}
