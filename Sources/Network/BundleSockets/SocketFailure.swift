import CLibrary
import NIOCore

/// Describes NIO's errors.
enum SocketFailure {
    static func reason(of error: any Error) -> String {
        switch error {
        case let error as IOError: String(cString: strerror(error.errnoCode))
        case let error as ChannelError:
            switch error {
            case .eof, .alreadyClosed, .ioOnClosedChannel, .inputClosed, .outputClosed: "it was closed"
            default: "\(error)"
            }
        default: "\(error)"
        }
    }
}
