import NIOCore

/// The state of a connection. Each state has its own time limit.
enum ConnectionPhase {
    /// No byte of a request has arrived.
    case idle
    case readingHead
    /// The service is waiting for the body.
    case readingBody(length: Int, EventLoopPromise<[UInt8]>)
    /// The service is preparing the response.
    case asking
    /// The kernel is sending the response. The file that it is sent from stays open.
    case sending(OpenFile?)
    case streaming
    /// The connection becomes a WebSocket.
    case changing
    /// Everything is sent, and the client has to close.
    case leaving
    case closed

    /// Whether no request is being processed, so the client may connect again.
    var isWaiting: Bool {
        switch self {
        case .idle, .readingHead: true
        case .readingBody, .asking, .sending, .streaming, .changing, .leaving, .closed: false
        }
    }

    /// Whether a response is being sent that the client has not read.
    var isUnread: Bool {
        switch self {
        case .sending, .leaving: true
        case .idle, .readingHead, .readingBody, .asking, .streaming, .changing, .closed: false
        }
    }

    /// Returns whether the connection reads. It pauses while its client does not read responses, so it is not writable.
    func wantsInput(isWritable: Bool) -> Bool {
        switch self {
        case .idle, .readingHead, .readingBody: isWritable
        case .leaving: true
        case .asking, .sending, .streaming, .changing, .closed: false
        }
    }

    /// Returns the longest time in this state; nil if only unsent bytes limit it.
    func timeout(_ limits: ServerLimits) -> Duration? {
        switch self {
        case .idle: limits.idle
        case .readingHead, .readingBody: limits.request
        case .leaving: limits.closing
        case .streaming, .sending, .asking, .changing, .closed: nil
        }
    }
}
