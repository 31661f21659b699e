package import BundleValues
import NIOCore

/// What answers the requests of one server.
protocol Service: AnyObject, Sendable {
    var limits: ServerLimits { get }
    var fields: ResponseFields { get }
    /// Told of every response, on the server's thread; nil where nobody wants to know.
    var log: (@Sendable (AccessEntry) -> Void)? { get }

    /// The response to a request. Starts on the server's thread, so that what needs no wait is answered without one; what may
    /// take long is somebody else's to do (`elsewhere`).
    nonisolated(nonsending) func respond(to request: Request) async -> Response
}

extension Service {
    var log: (@Sendable (AccessEntry) -> Void)? { nil }

    /// Lets somebody work who may take a while, and not on the server's thread.
    nonisolated(nonsending) func elsewhere<Value: Sendable>(
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        // A page does not wait for what the process does in the background.
        try await Task(priority: .high, operation: work).value
    }
}

/// One response, for a log: nothing of it is secret. Neither fields nor queries are in it.
package struct AccessEntry: Sendable {
    /// The address that asked.
    package let peer: String
    /// The method, or `-` where the request could not be read.
    package let method: String
    /// The path as it was written, on one line that cannot be taken for another; `-` where it could not be read.
    package let path: String
    /// When the request was there.
    package let time = Timestamp.now
    /// The status; 0 where there was no response.
    package internal(set) var status = 0
    /// The bytes of the response without its head.
    package internal(set) var bytes = 0
    /// From the request to the kernel's having the last byte of its response.
    package private(set) var milliseconds = 0
    /// Whether the connection ended before the response did.
    package private(set) var isCut = false

    private let begin = NIODeadline.now()

    init(_ request: Request?, from peer: String?) {
        self.peer = peer ?? "-"
        method = request?.methodName ?? "-"
        path = request.map { $0.withTarget { UntrustedName.display($1) } } ?? "-"
    }

    func ended(isCut: Bool) -> AccessEntry {
        var entry = self
        entry.isCut = isCut
        entry.milliseconds = Int((NIODeadline.now() - begin).nanoseconds / 1_000_000)
        return entry
    }

    /// The entry as one line.
    package var line: String {
        "\(time) \(peer) \(method) \(path) \(status) \(bytes) \(milliseconds)ms\(isCut ? " cut" : "")"
    }
}
