import Testing

@testable import BundleValues

@Suite struct ForeignBodyTests {
    private static let mark: [UInt8] = [0xEF, 0xBB, 0xBF]

    @Test(
        arguments: [
            ([], .empty), (Array("\n ".utf8), .empty), (mark, .empty), (Array("{}".utf8), nil),
            (Array(" \n{\"a\"".utf8), nil), (Array("\n<!doctype html>".utf8), .webPage),
            (mark + Array("<html>".utf8), .webPage),
            (mark + Array("{}".utf8), .byteOrderMark), ([0xFF, 0xFE, 0x7B, 0x00], .byteOrderMark),
            ([0x1F, 0x8B, 0x08], .compressed("gzip")), ([0x28, 0xB5, 0x2F, 0xFD], .compressed("zstd")),
            ([0x78, 0x9C, 0xAB], .compressed("zlib")),
            (Array("Access\u{1B} denied".utf8), .other("Access\\x1B denied")),
        ] as [([UInt8], ForeignBody?)])
    func `recognizes what a server sent instead of a document`(bytes: [UInt8], body: ForeignBody?) {
        #expect(ForeignBody.of(bytes) == body)
    }

    @Test func `names the address that was asked, and the one that answered`() throws {
        let (asked, other) = (
            try FetchURL(parsing: "https://a/manifest.json?sig=secret"),
            try FetchURL(parsing: "https://login/x?token=secret")
        )
        let failure = ForeignBody.empty.failure(of: asked, at: other)
        #expect(failure.message.hasPrefix("https://login/x, to which https://a/manifest.json redirects, returned"))
        #expect(!failure.message.contains("secret"))
        #expect(ForeignBody.empty.failure(of: asked, at: asked).message.hasPrefix("https://a/manifest.json returned"))
    }
}
