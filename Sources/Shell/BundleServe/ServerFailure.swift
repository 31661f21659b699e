package import BundleValues
import CLibrary

/// The reason why a server could not start.
package enum ServerFailure: Error, Equatable, Sendable, CustomStringConvertible {
    /// Another program listens on the requested port.
    case portBusy(Int)
    /// All ports of the range are in use.
    case rangeBusy(ClosedRange<Int>)
    /// The number is not a port.
    case port(Int)
    /// The system does not permit listening on the port. `code` is `errno`, or 0 if there is none.
    case bind(address: String = "127.0.0.1", port: Int, code: Int32)
    /// The text is not an address of this machine.
    case address(String)

    /// The failure and the remedy.
    package var description: String {
        switch self {
        case .portBusy(let port):
            "port \(port) is in use by another program: stop that program, or choose another port"
        case .rangeBusy(let range):
            "every port from \(range.lowerBound) to \(range.upperBound) is in use: stop a program that uses one, "
                + "or choose a port outside"
        case .port(let port):
            "\(port) is not a port: choose one from 1 to 65535, or 0 for any free port"
        case .address(let text):
            "\"\(text)\" is not an address of this machine: write a numeric address, such as 127.0.0.1, 0.0.0.0 for all of IPv4, or ::"
        case .bind(let address, let port, let code):
            "cannot listen on port \(port) of \(address) (\(String(cString: strerror(code)))): choose another port"
        }
    }
}

extension ServerFailure: ClassifiedFailure {
    /// The failure for users: the configuration cannot be applied.
    package var failure: UpdateFailure {
        let subject =
            switch self {
            case .portBusy(let port), .port(let port), .bind(_, let port, _): "port \(port)"
            case .address(let text): UntrustedName.display(text)
            case .rangeBusy(let range): "ports \(range.lowerBound) to \(range.upperBound)"
            }
        return UpdateFailure(.configInvalid, subject: subject, "The server cannot start: \(self).")
    }
}
