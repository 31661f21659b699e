/// The progress of an update.
package enum UpdateEvent: Sendable, Equatable {
    /// The device searches for reusable content.
    case planning
    /// The release is verified, and its download starts or continues.
    case downloading(bytes: Int, of: Int?)
    /// The archive is verified and is being unpacked.
    case unpacking(files: Int, of: Int?)
    /// The publisher is packing.
    case packing(bytes: Int, of: Int)
    /// The publisher is creating a delta from the release or folder `base`.
    case comparing(bytes: Int, of: Int, base: String)
    /// All files are unpacked and are being synced.
    case settling
    /// The download used this route.
    case routed(DownloadRoute)
}

/// Receives the events of running updates, on any thread.
package struct UpdateObserver: Sendable {
    private let receive: @Sendable (UpdateEvent) -> Void

    /// Creates an observer that by default ignores all events.
    package init(_ receive: @escaping @Sendable (UpdateEvent) -> Void = { _ in }) { self.receive = receive }

    package func callAsFunction(_ event: UpdateEvent) { receive(event) }
}
