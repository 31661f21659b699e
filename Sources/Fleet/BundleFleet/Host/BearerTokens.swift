import BundleDisk
import BundleServe
import BundleSigning
import BundleValues

/// The bearer tokens (RFC 6750) that authorize requests.
///
/// Only digests are kept, so the time of a comparison reveals nothing about a token, including its length.
package struct BearerTokens: Sendable {
    private static let maximumBytes = 1 << 20
    private static let longest = 8192

    private let digests: [[UInt8]]

    /// Reads a file with one token per line. Throws if other users may read the file, because its tokens may be known
    /// to them.
    package init(file path: String) throws {
        let file = try File.open(reading: path)
        if try file.permissions() & 0o077 != 0 {
            throw UpdateFailure(
                .permissionDenied, subject: path,
                "Other users can read the tokens in \(path). Run `chmod 600` on it, or better, create new tokens.")
        }
        try self.init(
            lines: try EditedText.bytes(of: file.readAll(maximumBytes: Self.maximumBytes), in: path), of: path)
    }

    init(lines bytes: [UInt8], of path: String) throws {
        var digests: [[UInt8]] = []
        for (index, line) in bytes.split(separator: HTTPBytes.lineFeed, omittingEmptySubsequences: false).enumerated() {
            let text = line.last == HTTPBytes.carriageReturn ? line.dropLast() : line
            let word = text.withUnsafeBytes { Array(HTTPBytes.trimmed($0)) }
            if word.isEmpty { continue }
            guard word.count <= Self.longest, word.allSatisfy(Self.isTokenByte) else {
                throw UpdateFailure(
                    .configInvalid, subject: "\(path):\(index + 1)",
                    "Line \(index + 1) of \(path) is not a bearer token: write one per line, of letters, digits and -._~+/= only."
                )
            }
            digests.append(try Self.digest(word))
        }
        if digests.isEmpty {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "\(path) has no token, so no request would be accepted: write one per line.")
        }
        self.digests = digests
    }

    /// Returns whether the value of an `Authorization` field contains one of the tokens. The time does not depend on
    /// which one.
    func admit(_ authorization: UnsafeRawBufferPointer) -> Bool {
        guard authorization.count > 7, authorization[6] == HTTPBytes.space,
            HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: authorization[..<6]), "bearer"),
            let given = try? Self.digest(
                Array(HTTPBytes.trimmed(UnsafeRawBufferPointer(rebasing: authorization[7...]))))
        else { return false }
        return admits(given)
    }

    /// Returns whether the value is a bearer token as above, or HTTP Basic (RFC 7617) with one of the tokens as its password, as
    /// browsers send it. The user name is ignored.
    func admitBrowser(_ authorization: UnsafeRawBufferPointer) -> Bool {
        guard authorization.count > 6, authorization[5] == HTTPBytes.space,
            HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: authorization[..<5]), "basic")
        else { return admit(authorization) }
        let encoded = HTTPBytes.trimmed(UnsafeRawBufferPointer(rebasing: authorization[6...]))
        guard let pair = try? Base64.decode(String(decoding: encoded, as: UTF8.self)),
            let colon = pair.firstIndex(of: HTTPBytes.colon), let given = try? Self.digest(Array(pair[(colon + 1)...]))
        else { return false }
        return admits(given)
    }

    private func admits(_ given: [UInt8]) -> Bool {
        digests.reduce(false) { isKnown, digest in constantTimeEquals(digest, given) || isKnown }
    }

    private static func digest(_ token: [UInt8]) throws -> [UInt8] {
        Array(try SHA256Digest.of(token).hex.utf8)
    }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        HTTPBytes.isLetter(byte) || HTTPBytes.isDigit(byte) || "-._~+/=".utf8.contains(byte)
    }
}
