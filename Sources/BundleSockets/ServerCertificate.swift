import NIOSSL

/// The files by which a server proves its name.
public struct ServerCertificate: Sendable, Equatable {
    /// A PEM file with its certificate and those between it and its authority.
    public var chainFile: String
    /// A PEM file with its private key.
    public var keyFile: String

    /// States the files.
    public init(chainFile: String, keyFile: String) {
        self.chainFile = chainFile
        self.keyFile = keyFile
    }

    func context() throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(chainFile).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: keyFile, format: .pem)))
        configuration.minimumTLSVersion = .tlsv12
        return try NIOSSLContext(configuration: configuration)
    }
}
