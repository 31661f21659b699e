import BundleValues
import Testing

@Suite("DurationText") struct DurationTextTests {
    @Test(arguments: [
        ("500ms", Duration.milliseconds(500), "500ms"), ("10s", .seconds(10), "10s"), ("15m", .seconds(900), "15m"),
        ("24h", .seconds(86_400), "1d"), ("30d", .seconds(2_592_000), "30d"), ("0s", .zero, "0s"), ("0ms", .zero, "0s"),
        ("90s", .seconds(90), "90s"), ("3600s", .seconds(3600), "1h"), ("36h", .seconds(129_600), "36h"),
        ("1500ms", .milliseconds(1500), "1500ms"), ("2000ms", .seconds(2), "2s"),
        ("3650d", DurationText.longest, "3650d"),
    ])
    func `reads and writes a duration with a unit`(text: String, duration: Duration, written: String) throws {
        let parsed = try DurationText(parsing: text)
        #expect(parsed.duration == duration)
        #expect(parsed.description == written)
        #expect(try DurationText(parsing: written) == parsed)
    }

    @Test(arguments: ["", "s", "-5s", "+5s", " 5s", "٣s", "5ſ", "forever"])
    func `rejects a text without leading digits or outside ASCII`(text: String) {
        #expect(throws: DurationTextError.notADuration(text: UntrustedName.display(text))) {
            try DurationText(parsing: text)
        }
    }

    @Test(arguments: ["0", "10", "99999999999999999999"])
    func `rejects a number without a unit`(text: String) {
        #expect(throws: DurationTextError.missingUnit(text: text)) { try DurationText(parsing: text) }
    }

    @Test(arguments: ["1w", "5 s", "5S", "1h30m", "1.5s", "5sec", "5s ", "1M", "1y"])
    func `rejects an unknown unit`(text: String) {
        #expect(throws: DurationTextError.unknownUnit(text: text)) { try DurationText(parsing: text) }
    }

    @Test(arguments: [
        "3651d", "315360000001ms", "9223372036854775807ms", "9223372036854775807d", "99999999999999999999s",
    ])
    func `rejects more than ten years`(text: String) {
        #expect(throws: DurationTextError.tooLong(text: text)) { try DurationText(parsing: text) }
    }

    @Test(arguments: [
        (Duration.seconds(-5), "-5s"), (.milliseconds(-1500), "-1500ms"), (.microseconds(1_234_567), "1234ms"),
        (.microseconds(999), "0s"), (.seconds(Int64.max) + .milliseconds(1), "9223372036854775807s"),
        (.seconds(-120), "-2m"),
    ])
    func `writes any duration`(duration: Duration, text: String) {
        #expect(DurationText(duration).description == text)
    }

    @Test func `describes the valid form in every error`() {
        #expect(
            DurationTextError.notADuration(text: "x").description.contains("\"x\" is not a duration; write it like 10s")
        )
        #expect(DurationTextError.missingUnit(text: "1").description.contains("\"1\" has no unit; add one of ms"))
        #expect(DurationTextError.unknownUnit(text: "1w").description.contains("\"1w\" has no known unit; use ms"))
        #expect(DurationTextError.tooLong(text: "9d").description.contains("\"9d\" is too long; use at most 3650d"))
    }
}
