import BundleValues
import Testing

@Suite struct CountedTests {
    @Test(arguments: [(0, "0 files"), (1, "1 file"), (2, "2 files"), (-1, "-1 files")])
    func `agrees with the number`(count: Int, words: String) {
        #expect(counted(count, "file") == words)
    }

    @Test func `uses an irregular plural`() {
        #expect(counted(1, "entry", "entries") == "1 entry" && counted(3, "entry", "entries") == "3 entries")
    }
}
