public import BundleCore

/// A bearer token (RFC 6750) and the only origin it is sent to, whatever a redirect says.
public struct BearerCredential: Sendable, CustomStringConvertible, CustomReflectable {
    /// The origin that may see the token.
    public let origin: FetchURL.Origin
    let token: String

    /// Takes the bytes of a token file, less surrounding white space; at most 8 KiB of RFC 6750 token characters.
    public init(tokenFile bytes: [UInt8], origin: FetchURL.Origin) throws(CredentialError) {
        let isSpace = { (byte: UInt8) in " \t\r\n".utf8.contains(byte) }
        let token = Array(bytes.drop(while: isSpace).reversed().drop(while: isSpace).reversed())
        guard !token.isEmpty else { throw .emptyToken }
        guard token.count <= 8192 else { throw .tokenTooLong }
        // Anything else, a line break above all, could add header lines.
        guard token.allSatisfy(Self.isTokenCharacter) else { throw .foreignCharacterInToken }
        self.token = String(decoding: token, as: UTF8.self)
        self.origin = origin
    }

    /// Names the origin, never the token.
    public var description: String { "bearer token for \(origin.scheme)://\(origin.host):\(origin.port)" }

    /// Shows no part to a debugger or dump.
    public var customMirror: Mirror { Mirror(self, children: []) }

    private static func isTokenCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: "-._~+/=".utf8.contains(byte)
        }
    }
}

/// Why the content of a token file is no bearer token.
public enum CredentialError: Error, Equatable, CustomStringConvertible {
    /// Nothing but white space.
    case emptyToken
    /// More than 8 KiB.
    case tokenTooLong
    /// A character that no bearer token has.
    case foreignCharacterInToken

    /// What is wrong and what to do; never the token.
    public var description: String {
        switch self {
        case .emptyToken: "The token file is empty. Put the token into it."
        case .tokenTooLong: "The token file has more than 8192 bytes. Check that it is the right file."
        case .foreignCharacterInToken:
            "The token file has a character that no bearer token has. It must hold the token alone, on one line."
        }
    }
}
