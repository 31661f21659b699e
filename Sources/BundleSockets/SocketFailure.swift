import BundlePush
import Glibc
import NIOCore
import NIOPosix
import NIOSSL

/// NIO's errors in words for people.
enum SocketFailure {
    static func reason(of error: any Error) -> String {
        switch error {
        case let error as IOError: String(cString: strerror(error.errnoCode))
        case let error as NIOConnectionError: reason(of: error)
        case NIOSSLError.uncleanShutdown: "it was cut inside TLS"
        case let error as ChannelError:
            switch error {
            case .connectTimeout: "nobody answered in time"
            case .eof, .alreadyClosed, .ioOnClosedChannel, .inputClosed, .outputClosed: "it was closed"
            default: "\(error)"
            }
        default: "\(error)"
        }
    }

    private static func reason(of error: NIOConnectionError) -> String {
        if let last = error.connectionErrors.last { return reason(of: last.error) }
        return "the name \(error.host) leads to no address"
    }

    /// Why there was no connection.
    static func connecting(_ error: any Error) -> TransportError {
        switch error {
        case let error as TransportError: error
        case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError: .untrusted(tls(error))
        case let error as ChannelError where error.isTimeout: .timedOut(.connecting)
        case let error as NIOConnectionError
        where !error.connectionErrors.isEmpty
            && error.connectionErrors.allSatisfy { ($0.error as? ChannelError)?.isTimeout ?? false }:
            .timedOut(.connecting)
        default: .unreachable(reason(of: error))
        }
    }

    private static func tls(_ error: any Error) -> String {
        let text = "\(error)"
        if text.contains("CERTIFICATE_VERIFY_FAILED") {
            return "no trusted authority vouches for it, or it is out of date"
        }
        if error is NIOSSLExtraError { return "it is for another name" }
        return text
    }
}

extension ChannelError {
    fileprivate var isTimeout: Bool {
        if case .connectTimeout = self { true } else { false }
    }
}
