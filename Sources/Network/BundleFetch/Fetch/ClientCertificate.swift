package import BundleValues
import BundleDisk
import BundleSigning

/// The certificate of a client for servers that request one, and its key.
public struct ClientCertificate: Sendable {
    /// The path of a PEM or PKCS#12 file.
    public let path: String
    /// The path of a PEM file with the key; nil if the file of the certificate contains it.
    public let keyPath: String?
    /// Whether the file is in the format PKCS#12, which contains the key.
    public let isPKCS12: Bool

    /// Creates a certificate. A file name that ends with `.p12` or `.pfx` is in the format PKCS#12.
    public init(path: String, keyPath: String?) {
        self.path = path
        self.keyPath = keyPath
        isPKCS12 = path.hasSuffix(".p12") || path.hasSuffix(".pfx")
    }

    /// The end of the validity; nil if the file cannot be read.
    var end: Timestamp? {
        guard !isPKCS12, let bytes = try? File.open(reading: path).readAll(maximumBytes: 1 << 20),
            let end = CertificateValidity.end(ofPEM: bytes)
        else { return nil }
        return Timestamp(clamping: end)
    }
}

/// Header fields of requests to one origin. They are not sent after a redirect to another.
package struct OriginHeaders: Sendable, CustomReflectable {
    package let origin: FetchURL.Origin
    package let fields: [(name: String, value: String)]

    /// Creates the fields. Throws for an origin that would receive secrets unencrypted over a network.
    package init(_ fields: [(name: String, value: String)], origin: FetchURL.Origin) throws(CredentialError) {
        guard origin.scheme != .http || origin.isThisMachine else { throw .cleartextOrigin(host: origin.host) }
        self.fields = fields
        self.origin = origin
    }

    /// An empty mirror, so that a debugger or `dump` cannot show the values.
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Reads files with one header field on each line, such as `X-Site: 12`. Empty lines and lines that start with `#` are ignored.
package enum HeaderFile {
    package static let maximumBytes = 16 << 10
    /// The fields that a fetch sets itself.
    private static let reserved: Set = [
        "connection", "content-length", "content-type", "host", "if-none-match", "if-range", "range", "te",
        "transfer-encoding", "upgrade", "user-agent",
    ]

    /// The reason why a line is not used. `line` is its number.
    package enum HeaderRefusal: Error, Sendable, Equatable, CustomStringConvertible {
        case notAField(line: Int)
        case reserved(String)
        case none

        package var description: String {
            switch self {
            case .notAField(let line): "line \(line) is not a header field, such as X-Site: 12"
            case .reserved(let name): "the field \(name) is set by clientctl and cannot be replaced"
            case .none: "it has no header field"
            }
        }
    }

    /// Returns the fields in the order of their lines.
    package static func parse(_ bytes: [UInt8]) throws(HeaderRefusal) -> [(name: String, value: String)] {
        var fields: [(name: String, value: String)] = []
        for (index, line) in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            let line = line.last == UInt8(ascii: "\r") ? line.dropLast() : line
            if line.isEmpty || line.first == UInt8(ascii: "#") { continue }
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { throw .notAField(line: index + 1) }
            let name = line[..<colon]
            var value = line[line.index(after: colon)...].drop { $0 == 0x20 }
            while value.last == 0x20 { value = value.dropLast() }
            guard !name.isEmpty, !value.isEmpty, value.allSatisfy({ (0x20...0x7E).contains($0) }),
                name.allSatisfy({ (0x21...0x7E).contains($0) && !Array("\"(),/:;<=>?@[\\]{}".utf8).contains($0) })
            else { throw .notAField(line: index + 1) }
            let text = String(decoding: name, as: UTF8.self)
            if reserved.contains(text.lowercased()) { throw .reserved(text) }
            fields.append((text, String(decoding: value, as: UTF8.self)))
        }
        if fields.isEmpty { throw .none }
        return fields
    }
}
