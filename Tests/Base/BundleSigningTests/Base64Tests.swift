import BundleSigning
import Testing

@Suite("Base64") struct Base64Tests {
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ])
    func `encodes and decodes the vectors of RFC 4648`(plain: String, text: String) throws {
        #expect(Base64.encode(Array(plain.utf8)) == text)
        #expect(try Base64.decode(text) == Array(plain.utf8))
    }

    @Test(arguments: [0, 1, 2, 3, 255, 256, 257, 1000])
    func `encodes every byte as the openssl command does and decodes it`(count: Int) throws {
        let bench = try Workbench()
        let content = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 / 256) }
        try bench.write(content, to: "content")
        try bench.openssl("base64 -A -in content -out text")
        let text = String(decoding: try bench.read("text"), as: UTF8.self)
        #expect(Base64.encode(content) == text)
        #expect(try Base64.decode(text) == content)
    }

    @Test(arguments: [
        ("Z", Base64Error.wrongLength(found: 1)),
        ("Zg", .wrongLength(found: 2)),
        ("Zg=", .wrongLength(found: 3)),
        ("Zm8", .wrongLength(found: 3)),
        ("Zm9vZg", .wrongLength(found: 6)),
        ("Zm9v\n", .wrongLength(found: 5)),
        ("Zm9\n", .invalidByte(offset: 3)),
        ("Zm 9", .invalidByte(offset: 2)),
        (" Zm9v==", .wrongLength(found: 7)),
        ("====", .invalidByte(offset: 0)),
        ("Z===", .invalidByte(offset: 1)),
        ("=Zm9", .invalidByte(offset: 0)),
        ("Zg==Zg==", .invalidByte(offset: 2)),
        ("Zm=v", .invalidByte(offset: 2)),
        ("-_-_", .invalidByte(offset: 0)),
        ("Zm9_", .invalidByte(offset: 3)),
        ("Zm9\u{0}", .invalidByte(offset: 3)),
        ("Zmé", .invalidByte(offset: 2)),
        ("Zh==", .unusedBitsSet),
        ("Zo==", .unusedBitsSet),
        ("Zm9=", .unusedBitsSet),
        ("Zm+=", .unusedBitsSet),
    ])
    func `rejects every other spelling`(text: String, error: Base64Error) {
        #expect(throws: error) { try Base64.decode(text) }
    }
}
