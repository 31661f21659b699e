import BundleValues
import Testing

@Suite("Timestamp") struct TimestampTests {
    @Test(arguments: [
        ("1970-01-01T00:00:00Z", 0), ("1970-01-01T00:00:01Z", 1), ("1970-12-31T23:59:59Z", 31_535_999),
        ("1972-02-29T00:00:00Z", 68_169_600), ("1999-12-31T23:59:59Z", 946_684_799),
        ("2000-02-29T12:00:00Z", 951_825_600),
        ("2000-03-01T00:00:00Z", 951_868_800), ("2001-09-09T01:46:40Z", 1_000_000_000),
        ("2024-02-29T23:59:59Z", 1_709_251_199), ("2026-11-21T21:09:38Z", 1_795_295_378),
        ("2038-01-19T03:14:08Z", 2_147_483_648), ("2100-02-28T23:59:59Z", 4_107_542_399),
        ("2100-03-01T00:00:00Z", 4_107_542_400), ("9999-12-31T23:59:59Z", 253_402_300_799),
    ])
    func `reads a time and writes it back`(text: String, seconds: Int) throws {
        #expect(try Timestamp(parsing: text).secondsSinceEpoch == seconds)
        #expect(try Timestamp(secondsSinceEpoch: seconds).description == text)
    }

    @Test(arguments: [
        "", "2026", "2026-11-21", "2026-11-21T21:09:38", "2026-11-21T21:09:38z", "2026-11-21t21:09:38Z",
        "2026-11-21 21:09:38Z", "2026-11-21T21:09:38.0Z", "2026-11-21T21:09:38+00:00", "2026-11-21T21:09:38-00:00",
        "2026-11-21T21:09Z", "2026-11-21T24:00:00Z", "2026-11-21T23:60:00Z", "2016-12-31T23:59:60Z",
        "2026-00-10T00:00:00Z",
        "2026-13-10T00:00:00Z", "2026-01-00T00:00:00Z", "2026-01-32T00:00:00Z", "2026-04-31T00:00:00Z",
        "2026-06-31T00:00:00Z", "2026-09-31T00:00:00Z", "2026-11-31T00:00:00Z", "2023-02-29T00:00:00Z",
        "2024-02-30T00:00:00Z", "2100-02-29T00:00:00Z", "1969-12-31T23:59:59Z", "0000-01-01T00:00:00Z",
        "12026-01-01T00:00:00Z", "-026-01-01T00:00:00Z", "2026-1-01T00:00:000Z", "2026-11-21T21:09:38Z ",
        " 2026-11-21T21:09:38Z", "2026-11-21T21:09:3٣", "2026/11/21T21:09:38Z", "2026-11-21T21-09-38Z",
        "2026-11-21T21:09:38Z\u{301}", "20:6-11-21T21:09:38Z", "20/6-11-21T21:09:38Z",
    ])
    func `rejects another form and a date that does not exist`(text: String) {
        #expect(throws: TimestampError.notATimestamp(text: UntrustedName.display(text))) {
            try Timestamp(parsing: text)
        }
    }

    @Test func `converts every day of 160 years`() throws {
        var (year, month, day) = (1970, 1, 1)
        for number in 0..<60_000 {
            let isLeap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
            let text = try Timestamp(secondsSinceEpoch: number * 86_400).description
            let padded = [month, day].map { $0 < 10 ? "0\($0)" : "\($0)" }
            let wanted = "\(year)-\(padded[0])-\(padded[1])T00:00:00Z"
            guard text == wanted else {
                Issue.record("day \(number) is \(text), not \(wanted)")
                return
            }
            guard try Timestamp(parsing: text).secondsSinceEpoch == number * 86_400 else {
                Issue.record("\(text) is not read back")
                return
            }
            day += 1
            if day > [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] {
                (month, day) = (month + 1, 1)
            }
            if month > 12 { (year, month) = (year + 1, 1) }
        }
    }

    @Test(arguments: [-1, Int.min, 253_402_300_800, Int.max])
    func `rejects or clamps seconds outside the years`(seconds: Int) {
        let error = #expect(throws: TimestampError.self) { try Timestamp(secondsSinceEpoch: seconds) }
        #expect(error == .outOfRange(seconds: seconds))
        #expect(error?.description.contains("\(seconds) seconds") == true)
        #expect(Timestamp(clamping: seconds).secondsSinceEpoch == (seconds < 0 ? 0 : Timestamp.latestSecond))
    }

    @Test func `sorts by time`() {
        #expect(Timestamp(clamping: 5) < Timestamp(clamping: 6))
        #expect(!(Timestamp(clamping: 6) < Timestamp(clamping: 6)))
    }

    @Test func `describes the valid form in an error`() {
        #expect(
            TimestampError.notATimestamp(text: "x").description
                == "\"x\" is not a UTC time; write it like 2026-11-21T21:09:38Z")
    }
}
