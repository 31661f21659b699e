/// The bearer token of a session (RFC 6750). Printing, dumping and reflecting it reveal nothing.
public struct AccessToken: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    /// The largest size of a token, in bytes.
    public static let maximumBytes = 8192

    /// The token itself, for the one header that sends it and the one file that stores it.
    public let secret: String

    /// Reads the bytes of a token file without surrounding white space: at most 8 KiB of RFC 6750 token characters.
    public init(tokenFile bytes: [UInt8]) throws(CredentialError) {
        let isSpace = { (byte: UInt8) in " \t\r\n".utf8.contains(byte) }
        let token = Array(bytes.drop(while: isSpace).reversed().drop(while: isSpace).reversed())
        guard !token.isEmpty else { throw .emptyToken }
        guard token.count <= Self.maximumBytes else { throw .tokenTooLong }
        // Other characters, such as line breaks, could add header lines.
        guard token.allSatisfy(Self.isTokenCharacter) else { throw .foreignCharacterInToken }
        secret = String(decoding: token, as: UTF8.self)
    }

    /// The words "access token".
    public var description: String { "access token" }

    /// A mirror without children.
    public var customMirror: Mirror { Mirror(self, children: []) }

    private static func isTokenCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: "-._~+/=".utf8.contains(byte)
        }
    }
}

/// The reason why a token is invalid or is not sent.
public enum CredentialError: Error, Equatable, CustomStringConvertible {
    /// The file has white space only.
    case emptyToken
    /// The token has more than 8 KiB.
    case tokenTooLong
    /// The token has a character that a bearer token must not have.
    case foreignCharacterInToken
    /// The token would be sent unencrypted over a network.
    case cleartextOrigin(host: String)

    /// The fault and the remedy, without the token.
    public var description: String {
        switch self {
        case .emptyToken: "The token file is empty. Put the token into it."
        case .tokenTooLong: "The token file has more than 8192 bytes. Check that it is the right file."
        case .foreignCharacterInToken:
            "The token file has a character that a bearer token must not have. It must contain only the token, on one line."
        case .cleartextOrigin(let host):
            "A token is not sent to \(host) over http, where other computers on the network can read it. Use an https address."
        }
    }
}
