import BundlePush
import NIOSSL

/// Whose word about a server's name counts.
public enum TrustedAuthorities: Sendable, Equatable {
    /// The authorities that the system trusts.
    case system
    /// Those in a PEM file, and no others.
    case file(String)

    /// The rules of a client: at least TLS 1.2, a certificate for the very name, from an authority that counts.
    func context() throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.certificateVerification = .fullVerification
        if case .file(let path) = self { configuration.trustRoots = .file(path) }
        do {
            return try NIOSSLContext(configuration: configuration)
        } catch {
            switch self {
            case .system: throw TransportError.untrusted("the system's authorities cannot be read (\(error))")
            case .file(let path): throw TransportError.untrusted("the authorities in \(path) cannot be read (\(error))")
            }
        }
    }
}
