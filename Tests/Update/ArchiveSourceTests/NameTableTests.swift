import Testing

@testable import ArchiveSource

@Suite struct NameTableTests {
    @Test func `a name has the tag it was given last, however many there are`() {
        var table = NameTable(expected: 10)
        // Far more than expected, so that it grows, and hashes that crowd.
        for hash in UInt64(0)..<20_000 {
            #expect(table.update(hash << 40, to: UInt32(hash)) == nil)
        }
        for hash in UInt64(0)..<20_000 {
            #expect(table.update(hash << 40, to: 7) == UInt32(hash))
            #expect(table.update(hash << 40, to: 8) == 7)
        }
    }

    @Test func `hash 0 is a hash like any other`() {
        var table = NameTable(expected: 1)
        #expect(table.update(0, to: 5) == nil)
        #expect(table.update(0, to: 6) == 5)
    }
}
