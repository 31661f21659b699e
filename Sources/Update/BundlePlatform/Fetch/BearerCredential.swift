package import BundleValues
package import ShellBoot

/// A bearer token (RFC 6750) and the only origin it is sent to, whatever a redirect says.
package struct BearerCredential: Sendable, CustomStringConvertible, CustomReflectable {
    /// The origin that may see the token.
    package let origin: FetchURL.Origin
    let token: AccessToken

    /// Refuses an origin that would get it in the clear over a network.
    package init(_ token: AccessToken, origin: FetchURL.Origin) throws(CredentialError) {
        guard origin.scheme != .http || origin.isThisMachine else { throw .cleartextOrigin(host: origin.host) }
        self.token = token
        self.origin = origin
    }

    /// Takes the bytes of a token file; see `AccessToken`.
    package init(tokenFile bytes: [UInt8], origin: FetchURL.Origin) throws(CredentialError) {
        try self.init(try AccessToken(tokenFile: bytes), origin: origin)
    }

    /// The field of a request that shows the token.
    package var field: (name: String, value: String) { ("Authorization", "Bearer \(token.secret)") }

    /// Names the origin, never the token.
    package var description: String { "bearer token for \(origin.scheme)://\(origin.host):\(origin.port)" }

    /// Shows no part to a debugger or dump.
    package var customMirror: Mirror { Mirror(self, children: []) }
}
