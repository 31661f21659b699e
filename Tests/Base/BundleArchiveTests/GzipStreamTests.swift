import BundleArchive
import BundleTesting
import Testing

@Suite("GzipStream") struct GzipStreamTests {
    private static let tar = Written.tar([Item("index.html", Array("<p>text</p>".utf8))])

    @Test func `rejects a truncated member`() throws {
        let archive = try Written.gzip(Self.tar)
        for count in 1..<archive.count {
            #expect(
                try Reading.failure(of: Array(archive[..<count]), as: .tarGzip)
                    == .corrupt("the gzip member is truncated"), "\(count) bytes")
        }
    }

    @Test func `rejects a zlib stream and raw deflate`() throws {
        let member = try Written.gzip(Self.tar)
        let deflated = Array(member[10..<member.count - 8])
        let zlib = [0x78, 0x9C] + deflated + adler32(Self.tar)
        for stream in [zlib, deflated] {
            let failure = try Reading.failure(of: stream, as: .tarGzip)
            #expect(failure == .corrupt("gzip: incorrect header check"))
        }
    }

    /// The input is read in pieces of 128 KiB, and this member ends at the end of a piece.
    @Test func `rejects bytes after a member that ends at the end of an input piece`() throws {
        let member = try Written.gzip(Self.tar)
        // RFC 1952: flag 16 means that a comment follows the ten bytes of the header.
        let comment = [UInt8](repeating: 0x21, count: (128 << 10) - member.count - 1) + [0]
        let archive = Array(member[..<3]) + [16] + Array(member[4..<10]) + comment + Array(member[10...])
        #expect(archive.count == 128 << 10)
        #expect(try Reading.failure(of: archive) == nil)
        for trailer in [[0], member, [UInt8](repeating: 0, count: 200_000)] {
            #expect(try Reading.failure(of: archive + trailer) == .trailingData)
        }
    }

    /// The checksum of RFC 1950, big-endian.
    private func adler32(_ bytes: [UInt8]) -> [UInt8] {
        let (low, high) = bytes.reduce((1, 0)) { sums, byte in
            let low = (sums.0 + Int(byte)) % 65_521
            return (low, (sums.1 + low) % 65_521)
        }
        return [high >> 8, high & 0xFF, low >> 8, low & 0xFF].map { UInt8($0) }
    }
}
