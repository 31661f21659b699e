import BundleSigning
import COpenSSL
import BundleTesting
import Testing

@Suite("SHA256") struct SHA256Tests {
    static let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    static let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    static let millionAs = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"

    @Test(arguments: [
        ([], empty), (Array("abc".utf8), abc), ([UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000), millionAs),
    ])
    func `computes the vectors of FIPS 180-4 in one piece and in many`(input: [UInt8], hex: String) throws {
        #expect(try SHA256Digest.of(input).hex == hex)
        var hasher = try SHA256Hasher()
        for start in stride(from: 0, to: input.count, by: 977) {
            try hasher.update(Array(input[start..<min(start + 977, input.count)]))
        }
        #expect(try hasher.finish().hex == hex)
    }

    @Test func `starts again after finish`() throws {
        var hasher = try SHA256Hasher()
        try hasher.update(Array("other".utf8))
        _ = try hasher.finish()
        #expect(try hasher.finish().hex == Self.empty)
        try Array("abc".utf8).withUnsafeBytes { try hasher.update($0) }
        #expect(try hasher.finish().hex == Self.abc)
    }

    @Test func `computes on several threads at once`() async throws {
        try await withThrowingTaskGroup { group in
            for seed in UInt8(0)..<8 {
                group.addTask {
                    let piece = [UInt8](repeating: seed, count: 4096)
                    var hasher = try SHA256Hasher()
                    for _ in 0..<64 { try hasher.update(piece) }
                    let whole = [UInt8](repeating: seed, count: 64 * 4096)
                    return try hasher.finish() == SHA256Digest.of(whole)
                }
            }
            for try await agrees in group { #expect(agrees) }
        }
    }

    @Test func `agrees with the openssl command`() throws {
        let bench = try Workbench()
        let content = noise(100_003)
        try bench.write(content, to: "content")
        try bench.openssl("dgst -sha256 -r -out digest content")
        #expect(try SHA256Digest.of(content).hex == String(decoding: bench.read("digest").prefix(64), as: UTF8.self))
    }

    @Test func `writes the same hexadecimal digits in all forms`() throws {
        let digest = try SHA256Digest(parsingHex: Self.abc)
        var buffer = Array("sha256=".utf8)
        digest.appendHex(to: &buffer)
        #expect(String(decoding: buffer, as: UTF8.self) == "sha256=\(Self.abc)")
        #expect(digest.hex == Self.abc)
        #expect("\(digest)" == Self.abc)
        #expect(digest.withUnsafeBytes { Array($0) } == bytes(Self.abc))
        #expect(SHA256Digest(bytes: bytes(Self.abc)) == digest)
        #expect(Set([digest, try SHA256Digest.of(Array("abc".utf8))]).count == 1)
        #expect(MemoryLayout<SHA256Digest>.size == SHA256Digest.byteCount)
    }

    @Test(arguments: [0, 31, 33])
    func `rejects a number of bytes other than 32`(count: Int) {
        #expect(SHA256Digest(bytes: [UInt8](repeating: 7, count: count)) == nil)
    }

    static let refusedTexts: [(String, DigestError)] = [
        ("", .wrongLength(found: 0)),
        ("\(abc.dropLast())", .wrongLength(found: 63)),
        ("\(abc)0", .wrongLength(found: 65)),
        (abc.uppercased(), .notLowerCaseHex(offset: 0)),
        ("\(abc.dropLast())g", .notLowerCaseHex(offset: 63)),
        ("\(abc.dropLast())/", .notLowerCaseHex(offset: 63)),
        ("\(abc.dropLast()):", .notLowerCaseHex(offset: 63)),
        ("\(abc.dropLast())`", .notLowerCaseHex(offset: 63)),
        (" \(abc.dropFirst())", .notLowerCaseHex(offset: 0)),
        ("\(abc.dropLast(2))é", .notLowerCaseHex(offset: 62)),
    ]

    @Test(arguments: refusedTexts)
    func `rejects a text that is not 64 lower-case hexadecimal digits`(text: String, error: DigestError) {
        #expect(throws: error) { try SHA256Digest(parsingHex: text) }
    }

    @Test func `compares all bytes in constant time`() {
        #expect(constantTimeEquals([], []))
        #expect(constantTimeEquals([1, 2, 3], [1, 2, 3]))
        #expect(!constantTimeEquals([1, 2, 3], [1, 2, 4]))
        #expect(!constantTimeEquals([0, 2, 3], [1, 2, 3]))
        #expect(!constantTimeEquals([1, 2], [1, 2, 3]))
        #expect(!constantTimeEquals([1, 2, 3], []))
    }
}
