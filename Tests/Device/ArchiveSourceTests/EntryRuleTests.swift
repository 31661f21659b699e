import BundleFormats
import ArchiveSource
import BundleTesting
import Testing

@Suite struct ArchiveEntryTests {
    /// Returns a tar whose pax record states a size other than that of the header.
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
    func `rejects an entry with a wrong size in its pax record`(_ key: String, _ wrong: (size: String, reason: String))
        throws
    {
        let rejection = try Refused.rejection(of: tar(key, wrong.size))
        #expect(rejection?.rule == "corrupt")
        #expect(rejection?.entry == "a.js")
        #expect(rejection?.reason == wrong.reason)
        #expect(try Refused.rejection(of: tar(key, "10")) == nil)
    }

    @Test func `checks the Unicode name of a zip entry`() throws {
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
