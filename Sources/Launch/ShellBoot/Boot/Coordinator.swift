/// Whoever answers for what is on the screen. It neither restores a session nor knows how a client is launched.
public protocol Coordinator: AnyObject, Sendable {
    /// Takes the screen: nothing of a client is shown until something is routed to.
    func start() async
}
