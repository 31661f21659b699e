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
    /// The name is not a directive of Content Security Policy that can be extended.
    case directive(String)
    /// The text is not a single source expression.
    case source(String, directive: String)
    /// The permissions policy has bytes that a header must not have.
    case permissionsPolicy

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
        case .directive(let name):
            "\"\(name)\" is not a directive of Content Security Policy that can be extended: write one such as connect-src "
                + "or script-src"
        case .source(let source, let directive):
            "\"\(source)\" is not a source for \(directive): write one source expression, without spaces, commas or semicolons"
        case .permissionsPolicy:
            "the permissions policy has characters that a header cannot have: write visible ASCII on one line"
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
            case .directive(let name): name
            case .source(let source, _): source
            case .permissionsPolicy: "permissions policy"
            }
        return UpdateFailure(.configInvalid, subject: subject, "The server cannot start: \(self).")
    }
}
