package import BundleSigning
package import BundleValues
import Glibc

/// One boot attempt, as the ledger remembers it.
package struct Launch: Sendable, Equatable {
    /// How a launch ended.
    package enum Verdict: String, Sendable, CaseIterable {
        case good, faulty
    }

    /// The client that was launched.
    package let name: ClientName
    /// SHA-256 of its token.
    package let tokenSha256: SHA256Digest
    /// When the attempt was made.
    package let at: Timestamp
    /// Whether the client had not yet confirmed a start: it is watched, and falls back if it does not.
    package internal(set) var isTrial: Bool
    /// The shell's verdict; nil while there is none.
    package internal(set) var verdict: Verdict?
    /// Whether the shell waits for a first report of the client's page. Until then the browser may show something else, so what ends the
    /// trial is not the client's failure.
    package internal(set) var awaitsPage = false

    /// A trial without a verdict: if nobody is running it any more, it failed.
    package var isOpenTrial: Bool { isTrial && verdict == nil }
}

/// What the ledger knows about the starts of one installed client.
package struct StartRecord: Sendable, Equatable {
    /// The client.
    package let version: ClientVersion
    /// When it confirmed a start; nil while it never did since it last failed.
    package internal(set) var goodSince: Timestamp?
    /// The failed starts since it was last good, oldest first.
    package internal(set) var failures: [StartFailure]
}

/// Which launch somebody speaks of: the client, and the digest of the token that was shown.
struct LaunchClaim: Sendable, Equatable {
    let name: ClientName
    let tokenSha256: SHA256Digest

    init(_ name: ClientName, _ token: LaunchToken) throws(OpenSSLFailure) {
        self.name = name
        tokenSha256 = try token.digest()
    }

    /// Whether `launch` is the one, in a time that does not tell where the digests differ.
    func matches(_ launch: Launch) -> Bool {
        launch.name == name
            && constantTimeEquals(
                tokenSha256.withUnsafeBytes(Array.init), launch.tokenSha256.withUnsafeBytes(Array.init))
    }
}

/// The secret of one launch: whoever gives the verdict on it must show it.
public struct LaunchToken: Sendable, Equatable {
    /// 64 lower-case hex digits, 256 random bits.
    public let text: String

    /// Draws a token from the kernel.
    public static func random() throws -> LaunchToken {
        var bytes = [UInt8](repeating: 0, count: SHA256Digest.byteCount)
        guard getentropy(&bytes, bytes.count) == 0, let drawn = SHA256Digest(bytes: bytes) else {
            throw UpdateFailure(
                .internal, subject: "getentropy",
                "The kernel gave no random bytes: \(String(cString: strerror(errno))).")
        }
        return LaunchToken(text: drawn.hex)
    }

    /// A token as a shell shows it; whether it is the right one only its digest tells.
    public init(text: String) {
        self.text = text
    }

    /// What the ledger keeps of it.
    package func digest() throws(OpenSSLFailure) -> SHA256Digest { try SHA256Digest.of(Array(text.utf8)) }
}
