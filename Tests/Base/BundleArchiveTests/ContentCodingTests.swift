import BundleArchive
import BundleTestTraits
import BundleTesting
import Testing

@Suite("ContentCoding") struct ContentCodingTests {
    private static let plain = Array("console.log('hello, hello, hello')\n".utf8)
    /// `plain`, encoded by brotli's own encoder at its highest quality.
    private static let brotli: [UInt8] = [
        0x1B, 0x22, 0x00, 0xF8, 0x8D, 0x93, 0x25, 0x5E, 0xB9, 0x25, 0xB5, 0x42, 0x0A, 0xDB, 0x9B, 0x3E, 0x41, 0x71,
        0x39,
        0xD3, 0x85, 0x68, 0x32, 0x4B, 0x30, 0x32, 0x01, 0x5E, 0x28, 0xA2, 0x4B, 0xBD, 0x0C, 0x75, 0x44, 0x00,
    ]

    private static func copy(_ coding: ContentCoding, of bytes: [UInt8]) throws -> [UInt8] {
        if coding == .brotli { return bytes == plain ? brotli : [0x3B] }
        let folder = try TemporaryFolder()
        let file = try folder.write(bytes, to: "plain")
        return try Program.run(
            coding == .gzip ? ["gzip", "-9c", file] : ["zstd", "-qc", file], environment: ["PATH": "/usr/bin:/bin"]
        ).output
    }

    private func isCopy(_ coding: ContentCoding, _ copy: [UInt8], of plain: [UInt8]) throws -> Bool {
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: plain.count + 1, alignment: 1)
        defer { scratch.deallocate() }
        return try coding.isCopy(copy, of: plain, scratch: scratch)
    }

    @Test(.ownThread, arguments: ContentCoding.allCases)
    func `accepts only a copy that decodes to the same bytes`(coding: ContentCoding) throws {
        try #require(coding.isReadable)
        let copy = try Self.copy(coding, of: Self.plain)
        #expect(try isCopy(coding, copy, of: Self.plain))
        var other = Self.plain
        other[3] ^= 1
        #expect(try !isCopy(coding, copy, of: other))
        #expect(try !isCopy(coding, copy, of: Self.plain.dropLast()))
        #expect(try !isCopy(coding, copy, of: Self.plain + [0x0A]))
        #expect(try !isCopy(coding, copy.dropLast(), of: Self.plain))
        #expect(try !isCopy(coding, Self.plain, of: Self.plain))
        #expect(try !isCopy(coding, [], of: Self.plain))
        #expect(try isCopy(coding, Self.copy(coding, of: []), of: []))
    }
}
