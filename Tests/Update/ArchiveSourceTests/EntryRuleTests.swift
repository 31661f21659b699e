import ArchiveSource
import BundleTesting
import Testing

@Suite struct `The entries of an archive` {
    /// A tar whose pax records state another size than the header that the data goes by.
    private func tar(_ key: String, _ size: String) -> [UInt8] {
        var tar = HandmadeTar.withIndex
        tar.add(pax: [key: size])
        tar.add("a.js", Array("0123456789".utf8))
        return tar.bytes
    }

    @Test(
        arguments: ["SCHILY.realsize", "GNU.sparse.realsize"],
        [
            ("9", "it is longer than stated"), ("11", "it is shorter than stated"), ("0", "it is longer than stated"),
            ("-5", "its size is not stated"),
        ])
    func `have the size that they state`(_ key: String, _ wrong: (size: String, reason: String)) throws {
        let rejection = try Refused.rejection(of: tar(key, wrong.size))
        #expect(rejection?.rule == "corrupt")
        #expect(rejection?.entry == "a.js")
        #expect(rejection?.reason == wrong.reason)
        #expect(try Refused.rejection(of: tar(key, "10")) == nil)
    }

    @Test func `have a name in a zip's other spelling, too`() throws {
        for (spelling, rule) in [
            (Array("b.js".utf8), nil), ([0xFF], "name-not-utf8"), (Array("../b".utf8), "path-traversal"),
        ] {
            var zip = HandmadeZip()
            let checksum = zip.number(Int(HandmadeZip.checksum(zip.files[1].name)), 4)
            zip.files[1].localExtra = zip.field(0x7075, [1] + checksum + spelling)
            #expect(try Refused.rejection(of: zip.bytes)?.rule == rule)
        }
    }
}
