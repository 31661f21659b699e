import Testing

@testable import BundleFormats
@testable import ArchiveSource

@Suite struct NameTableTests {
    @Test func `returns the last tag of each of many names`() {
        var table = NameTable(expected: 10)
        // More names than expected, so that the table grows, with colliding hashes.
        let hashes = (UInt64(0)..<2_000).map { $0 << 40 }
        let before = hashes.enumerated().filter { table.update($1, to: UInt32($0)) != nil }
        #expect(before.isEmpty)
        let first = hashes.enumerated().filter { table.update($1, to: 7) != UInt32($0) }
        #expect(first.isEmpty)
        let second = hashes.filter { table.update($0, to: 8) != 7 }
        #expect(second.isEmpty)
    }

    @Test func `stores a tag for hash 0`() {
        var table = NameTable(expected: 1)
        #expect(table.update(0, to: 5) == nil)
        #expect(table.update(0, to: 6) == 5)
    }
}
