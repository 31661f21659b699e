import BundleValues
import Testing

@Suite("ByteCount") struct ByteCountTests {
    @Test(arguments: [
        (0, "0 bytes"), (1, "1 byte"), (512, "512 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (1049, "1.0 kB"),
        (1050, "1.1 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"), (182_100_000, "182.1 MB"),
        (199_600_000, "199.6 MB"),
        (999_950_000, "1.0 GB"), (1_500_000_000, "1.5 GB"), (2_000_000_000_000, "2.0 TB"), (-1, "-1 byte"),
        (-1500, "-1.5 kB"), (Int.max, "9223372.0 TB"), (Int.min, "-9223372.0 TB"),
    ])
    func `writes a size in decimal units with one digit`(bytes: Int, text: String) {
        #expect(ByteCount(bytes: bytes).description == text)
    }

    @Test(arguments: [
        ("4096", 4096), ("0", 0), ("7B", 7), ("3kB", 3000), ("3KB", 3000), ("10MB", 10_000_000), ("2GB", 2_000_000_000),
        ("64KiB", 65_536), ("256MiB", 268_435_456), ("1GiB", 1_073_741_824), ("9223372036854775807", Int.max),
        ("8589934591GiB", 9_223_372_035_781_033_984), ("007", 7),
    ])
    func `reads a size with or without a unit`(text: String, bytes: Int) throws {
        #expect(try ByteCount(parsing: text).bytes == bytes)
    }

    @Test(arguments: ["", "MB", "-1", "+1", " 1", "٣", "1٣", "3\u{212A}B", "1B\u{301}", "x1"])
    func `rejects a text without leading digits or outside ASCII`(text: String) {
        #expect(throws: ByteCountError.notASize(text: UntrustedName.display(text))) { try ByteCount(parsing: text) }
    }

    @Test(arguments: ["1 MB", "1mb", "1M", "1TB", "1.5MB", "1e3", "1MB ", "1_000", "0x10", "1MBMB"])
    func `rejects an unknown unit`(text: String) {
        #expect(throws: ByteCountError.unknownUnit(text: text)) { try ByteCount(parsing: text) }
    }

    @Test(arguments: ["9223372036854775808", "8589934592GiB", "99999999999999999999999999", "18446744073709551617B"])
    func `rejects a size beyond 63 bits`(text: String) {
        #expect(throws: ByteCountError.tooLarge(text: text)) { try ByteCount(parsing: text) }
    }

    @Test func `sorts sizes by their bytes`() {
        #expect(ByteCount(bytes: 9) < ByteCount(bytes: 10))
        #expect(!(ByteCount(bytes: 10) < ByteCount(bytes: 10)))
    }

    @Test func `describes the valid form in every error`() {
        #expect(
            ByteCountError.notASize(text: "x").description == "\"x\" is not a size; write it like 4096, 10MB or 256MiB")
        #expect(ByteCountError.unknownUnit(text: "1x").description.contains("\"1x\" has no known unit; use B"))
        #expect(ByteCountError.tooLarge(text: "9").description.contains("\"9\" is too large"))
    }
}
