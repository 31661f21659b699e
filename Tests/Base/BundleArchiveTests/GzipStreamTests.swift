import BundleArchive
import BundleTesting
import Testing

@Suite struct `A gzip stream` {
    private static let tar = Written.tar([Item("index.html", Array("<p>text</p>".utf8))])

    @Test func `is not cut short`() throws {
        let archive = try Written.gzip(Self.tar)
        for count in 1..<archive.count {
            #expect(
                try Reading.failure(of: Array(archive[..<count]), as: .tarGzip)
                    == .corrupt("the gzip member is cut short"), "\(count) bytes")
        }
    }

    @Test func `is no zlib stream, and no deflate without a header`() throws {
        let member = try Written.gzip(Self.tar)
        let deflated = Array(member[10..<member.count - 8])
        let zlib = [0x78, 0x9C] + deflated + adler32(Self.tar)
        for stream in [zlib, deflated] {
            let failure = try Reading.failure(of: stream, as: .tarGzip)
            #expect(failure == .corrupt("gzip: incorrect header check"))
        }
    }

    /// The input is read in pieces of 128 KiB, so nothing is left of one that ends with a piece.
    @Test func `ends with its file, also where a piece of the input ends`() throws {
        let member = try Written.gzip(Self.tar)
        // RFC 1952: flag 16 says that a comment follows the ten bytes of the header.
        let comment = [UInt8](repeating: 0x21, count: (128 << 10) - member.count - 1) + [0]
        let archive = Array(member[..<3]) + [16] + Array(member[4..<10]) + comment + Array(member[10...])
        #expect(archive.count == 128 << 10)
        #expect(try Reading.failure(of: archive) == nil)
        for trailer in [[0], member, [UInt8](repeating: 0, count: 200_000)] {
            #expect(try Reading.failure(of: archive + trailer) == .trailingData)
        }
    }

    /// RFC 1950, big-endian.
    private func adler32(_ bytes: [UInt8]) -> [UInt8] {
        let (low, high) = bytes.reduce((1, 0)) { sums, byte in
            let low = (sums.0 + Int(byte)) % 65_521
            return (low, (sums.1 + low) % 65_521)
        }
        return [high >> 8, high & 0xFF, low >> 8, low & 0xFF].map { UInt8($0) }
    }
}
