import BundleDisk
import BundleSigning

/// What a manifest can say about the bytes of a file; they are read once.
package struct ContentDigests: Sendable, Equatable {
    /// The number of bytes.
    package let size: Int
    /// SHA-1 of the bytes, lower-case hex.
    package let sha1: String
    /// SHA-1 of `HashScheme.salt` and the bytes, lower-case hex.
    package let saltedSHA1: String
    /// SHA-512 of the bytes, base64.
    package let sri: String

    /// Of bytes in memory, or of a file, block by block.
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

/// The bytes of a file in a bundle.
package enum BundleContent: Sendable {
    /// In memory.
    case bytes([UInt8])
    /// In the file at this path, which must not change as long as the bundle is in use.
    case file(String)

    /// Text in memory.
    package static func text(_ text: String) -> BundleContent { .bytes(Array(text.utf8)) }

    /// All of them.
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

/// SHA-1 in the spelling of manifests.
package enum SHA1 {
    /// Of the UTF-8 of `text`, lower-case hex.
    package static func hex(of text: String) throws -> String { try hex(of: Array(text.utf8)) }

    /// Of bytes, lower-case hex.
    package static func hex(of bytes: [UInt8]) throws -> String {
        LabelHasher.hex(try LabelHasher.digest(bytes, .sha1))
    }
}
