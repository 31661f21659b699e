package import BundleDisk
import BundleValues

/// The key of an object in its bucket. It needs no encoding, so the signed text is the sent text.
package struct ObjectKey: Hashable, Sendable {
    package let text: String

    /// Returns nil unless the text consists of letters, digits and `._~/-` without an empty, `.` or `..` component.
    /// libcurl before 8.9 signs other keys wrongly.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        let isPlain = text.utf8.allSatisfy { $0 == UInt8(ascii: "/") || ObjectRequest.isUnreserved($0) }
        guard isPlain, text.utf8.count <= 1024, parts.allSatisfy({ !["", ".", ".."].contains($0) }) else { return nil }
        self.text = text
    }
}

/// A request to an object store that every version of libcurl signs correctly.
package struct ObjectRequest {
    package enum ObjectMethod: String, Sendable { case get = "GET", put = "PUT", delete = "DELETE" }

    package enum ObjectContent {
        case none
        case bytes([UInt8])
        /// A file, which is read during the upload because it may be large.
        case file(File)
    }

    /// A header of these requests. No name is a prefix of another and no value is empty, which libcurl before 8.10
    /// would sign wrongly.
    package enum Header: String, Sendable, CaseIterable {
        case ifNoneMatch = "If-None-Match"
        case ifMatch = "If-Match"
        case contentType = "Content-Type"
        case cacheControl = "Cache-Control"
    }

    package let method: ObjectMethod
    /// The object; nil for the bucket.
    package let key: ObjectKey?
    /// The unencoded names and values of the query.
    package var query: [String: String] = [:]
    package var headers: [Header: String] = [:]
    package var body = ObjectContent.none

    package init(_ method: ObjectMethod, _ key: ObjectKey?) {
        self.method = method
        self.key = key
    }

    static func isUnreserved(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || "-._~".utf8.contains(byte)
    }

    /// The query with sorted and encoded names and values.
    var target: String {
        let pairs = query.sorted { $0.key < $1.key }.map { "\(Self.encoded($0.key))=\(Self.encoded($0.value))" }
        return pairs.isEmpty ? "" : "?" + pairs.joined(separator: "&")
    }

    private static func encoded(_ text: String) -> String {
        text.utf8.map { byte in
            if isUnreserved(byte) { return String(UnicodeScalar(byte)) }
            let digits = String(byte, radix: 16, uppercase: true)
            return "%" + (digits.utf8.count == 1 ? "0" : "") + digits
        }.joined()
    }
}

/// The response of an object store.
package struct ObjectResponse: Sendable {
    package let status: Int
    /// The entity tag as the server sent it. It is not a digest.
    package let entityTag: String?
    package let retryAfter: Duration?
    /// The body, unless it was passed to the caller's `receive`.
    package let body: [UInt8]
}

/// The access keys of an object store.
package struct AccessKeys: Sendable {
    let id: String
    let secret: String
    let sessionToken: String?
    /// Whether each request sends a session token.
    package var hasSessionToken: Bool { sessionToken != nil }

    /// Returns nil unless each text is a valid header value.
    package init?(id: String, secret: String, sessionToken: String?) {
        let texts = [id, secret] + (sessionToken.map { [$0] } ?? [])
        let isPlain = { (text: String) in !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } }
        guard texts.allSatisfy(isPlain) else { return nil }
        (self.id, self.secret, self.sessionToken) = (id, secret, sessionToken)
    }
}

extension AccessKeys: CustomStringConvertible, CustomDebugStringConvertible {
    /// A text without the secrets.
    package var description: String { "keys of an object store" }
    package var debugDescription: String { description }
}
