import BundleDisk
import BundleSigning

/// The digests of a file for a manifest, computed in one pass.
package struct ContentDigests: Sendable, Equatable {
    package let size: Int
    /// The SHA-1 in lower-case hexadecimal.
    package let sha1: String
    /// The SHA-1 of `HashScheme.salt` and the bytes, in lower-case hexadecimal.
    package let saltedSHA1: String
    /// The SHA-512 in base64.
    package let sri: String

    /// Digests bytes in memory, or a file block by block.
    package init(of content: BundleContent) throws {
        var size = 0
        var sha1 = try LabelHasher(.sha1)
        var salted = try LabelHasher(.sha1)
        var sha512 = try LabelHasher(.sha512)
        try salted.update(Array(HashScheme.salt.utf8))
        try content.forEachBlock { block in
            size += block.count
            try sha1.update(block)
            try salted.update(block)
            try sha512.update(block)
        }
        self.size = size
        self.sha1 = LabelHasher.hex(try sha1.finish())
        saltedSHA1 = LabelHasher.hex(try salted.finish())
        sri = Base64.encode(try sha512.finish())
    }
}

package enum BundleContent: Sendable {
    case bytes([UInt8])
    /// The file at this path, which must not change while the bundle is used.
    case file(String)

    package static func text(_ text: String) -> BundleContent { .bytes(Array(text.utf8)) }

    package func read() throws -> [UInt8] {
        switch self {
        case .bytes(let bytes): bytes
        case .file(let path): try File.open(reading: path).readAll(maximumBytes: 1 << 30)
        }
    }

    func forEachBlock(_ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        switch self {
        case .bytes(let bytes): try bytes.withUnsafeBytes(body)
        case .file(let path): _ = try File.open(reading: path).forEachBlock(body)
        }
    }
}

/// SHA-1 as written in manifests.
package enum SHA1 {
    package static func hex(of text: String) throws -> String { try hex(of: Array(text.utf8)) }

    package static func hex(of bytes: [UInt8]) throws -> String {
        LabelHasher.hex(try LabelHasher.digest(of: bytes, by: .sha1))
    }
}
