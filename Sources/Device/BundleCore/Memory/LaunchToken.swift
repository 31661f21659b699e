import BundleFormats
package import BundleSigning
package import BundleValues
import CLibrary

/// One launch of a client.
package struct Launch: Sendable, Equatable {
    /// The result of a launch.
    package enum Verdict: String, Sendable, CaseIterable {
        case good, faulty
    }

    package let name: ClientName
    /// The SHA-256 of the launch's token.
    package let tokenSha256: SHA256Digest
    package let at: Timestamp
    /// Whether the client had no confirmed start. A trial is watched, and the shell falls back if it is not
    /// confirmed.
    package internal(set) var isTrial: Bool
    /// The verdict of the shell; nil while it is pending.
    package internal(set) var verdict: Verdict?
    /// Whether the shell still waits for a first report of the client's page. Until then the browser may show
    /// something else, so an interrupted trial is not the client's failure.
    package internal(set) var awaitsPage = false

    /// Whether the launch is a trial without a verdict. It failed if its shell is not running.
    package var isOpenTrial: Bool { isTrial && verdict == nil }
}

/// The starts of one installed client.
package struct StartRecord: Sendable, Equatable {
    package let version: ClientVersion
    /// The time of the last confirmed start; nil if the client has failed since.
    package internal(set) var goodSince: Timestamp?
    /// The failed starts since the client last confirmed a start, oldest first.
    package internal(set) var failures: [StartFailure]
}

/// The launch that a caller means: its client, and the digest of the token that the caller presented.
struct LaunchClaim: Sendable, Equatable {
    let name: ClientName
    let tokenSha256: SHA256Digest

    init(_ name: ClientName, _ token: LaunchToken) throws(OpenSSLFailure) {
        self.name = name
        tokenSha256 = try token.digest()
    }

    /// Returns whether `launch` is the claimed one. Compares the digests in constant time.
    func matches(_ launch: Launch) -> Bool {
        launch.name == name
            && constantTimeEquals(
                tokenSha256.withUnsafeBytes(Array.init), launch.tokenSha256.withUnsafeBytes(Array.init))
    }
}

/// The secret of one launch. A verdict on the launch requires it.
public struct LaunchToken: Sendable, Equatable {
    /// 64 lower-case hex digits, 256 random bits.
    public let text: String

    /// Returns a token from the kernel's random generator. Throws `internal` if the kernel fails.
    public static func random() throws -> LaunchToken {
        var bytes = [UInt8](repeating: 0, count: SHA256Digest.byteCount)
        guard getentropy(&bytes, bytes.count) == 0, let drawn = SHA256Digest(bytes: bytes) else {
            throw UpdateFailure(
                .internal, subject: "getentropy",
                "The kernel gave no random bytes: \(String(cString: strerror(errno))).")
        }
        return LaunchToken(text: drawn.hex)
    }

    /// Creates a token from a caller's text, which may be the wrong one.
    public init(text: String) {
        self.text = text
    }

    /// Returns the digest that the ledger stores.
    package func digest() throws(OpenSSLFailure) -> SHA256Digest { try SHA256Digest.of(Array(text.utf8)) }
}
