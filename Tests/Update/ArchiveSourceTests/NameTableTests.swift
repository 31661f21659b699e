import Testing

@testable import ArchiveSource

@Suite struct NameTableTests {
    @Test func `a name has the tag it was given last, however many there are`() {
        var table = NameTable(expected: 10)
        // Far more than expected, so that it grows, and hashes that crowd.
        let hashes = (UInt64(0)..<2_000).map { $0 << 40 }
        let before = hashes.enumerated().filter { table.update($1, to: UInt32($0)) != nil }
        #expect(before.isEmpty)
        let first = hashes.enumerated().filter { table.update($1, to: 7) != UInt32($0) }
        #expect(first.isEmpty)
        let second = hashes.filter { table.update($0, to: 8) != 7 }
        #expect(second.isEmpty)
    }

    @Test func `hash 0 is a hash like any other`() {
        var table = NameTable(expected: 1)
        #expect(table.update(0, to: 5) == nil)
        #expect(table.update(0, to: 6) == 5)
    }
}
