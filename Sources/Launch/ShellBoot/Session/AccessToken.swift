/// The secret that a session shows to a server: a bearer token (RFC 6750). Whatever prints, dumps or reflects it shows nothing.
public struct AccessToken: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    /// The longest that is taken, in bytes.
    public static let maximumBytes = 8192

    /// The token itself, for the one header that carries it and the one file that keeps it.
    public let secret: String

    /// Takes the bytes of a token file, less surrounding white space; at most 8 KiB of RFC 6750 token characters.
    public init(tokenFile bytes: [UInt8]) throws(CredentialError) {
        let isSpace = { (byte: UInt8) in " \t\r\n".utf8.contains(byte) }
        let token = Array(bytes.drop(while: isSpace).reversed().drop(while: isSpace).reversed())
        guard !token.isEmpty else { throw .emptyToken }
        guard token.count <= Self.maximumBytes else { throw .tokenTooLong }
        // Anything else, a line break above all, could add header lines.
        guard token.allSatisfy(Self.isTokenCharacter) else { throw .foreignCharacterInToken }
        secret = String(decoding: token, as: UTF8.self)
    }

    /// Says that it is one.
    public var description: String { "access token" }

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

/// Why a token is none, or may not be sent.
public enum CredentialError: Error, Equatable, CustomStringConvertible {
    /// Nothing but white space.
    case emptyToken
    /// More than 8 KiB.
    case tokenTooLong
    /// A character that no bearer token has.
    case foreignCharacterInToken
    /// The server would get it in the clear, over a network that others read.
    case cleartextOrigin(host: String)

    /// What is wrong and what to do; never the token.
    public var description: String {
        switch self {
        case .emptyToken: "The token file is empty. Put the token into it."
        case .tokenTooLong: "The token file has more than 8192 bytes. Check that it is the right file."
        case .foreignCharacterInToken:
            "The token file has a character that no bearer token has. It must hold the token alone, on one line."
        case .cleartextOrigin(let host):
            "A token is not sent to \(host) over http, where everybody on the way can read it. Use an https address."
        }
    }
}
