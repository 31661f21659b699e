import BundleValues
package import BundleSigning
import Glibc

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
