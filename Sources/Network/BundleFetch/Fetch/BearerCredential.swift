package import BundleValues

/// A bearer token (RFC 6750) and the only origin that receives it, also after redirects.
package struct BearerCredential: Sendable, CustomStringConvertible, CustomReflectable {
    /// The origin that receives the token.
    package let origin: FetchURL.Origin
    let token: AccessToken

    /// Throws for an origin that would receive the token unencrypted over a network.
    package init(_ token: AccessToken, origin: FetchURL.Origin) throws(CredentialError) {
        guard origin.scheme != .http || origin.isThisMachine else { throw .cleartextOrigin(host: origin.host) }
        self.token = token
        self.origin = origin
    }

    /// Creates a credential from the bytes of a token file; see `AccessToken`.
    package init(tokenFile bytes: [UInt8], origin: FetchURL.Origin) throws(CredentialError) {
        try self.init(try AccessToken(tokenFile: bytes), origin: origin)
    }

    /// The request header with the token.
    package var field: (name: String, value: String) { ("Authorization", "Bearer \(token.secret)") }

    /// The origin, without the token.
    package var description: String { "bearer token for \(origin.scheme)://\(origin.host):\(origin.port)" }

    /// An empty mirror, so that a debugger or `dump` cannot show the token.
    package var customMirror: Mirror { Mirror(self, children: []) }
}
