import Testing

@testable import BundleFormats
@testable import BundleCore

struct ActivationWindowsTests {
    private static func isOpen(_ text: String, _ day: Int, _ hour: Int, _ minute: Int) throws -> Bool {
        try ActivationWindows(parsing: text).isOpen(at: .init(day: day, minute: hour * 60 + minute))
    }

    @Test(arguments: [
        ("02:00-04:00", 0, 1, 59, false), ("02:00-04:00", 0, 2, 0, true), ("02:00-04:00", 6, 3, 59, true),
        ("02:00-04:00", 6, 4, 0, false), ("00:00-24:00", 3, 23, 59, true), ("22:00-01:30", 2, 1, 29, true),
        ("22:00-01:30", 2, 1, 30, false), ("22:00-01:30", 2, 21, 59, false), ("22:00-01:30", 2, 22, 0, true),
        ("22:00-00:00", 2, 23, 59, true), ("22:00-00:00", 2, 0, 0, false),
        // A window after midnight belongs to the day on which it begins.
        ("Fri 22:00-02:00", 4, 23, 0, true), ("Fri 22:00-02:00", 5, 1, 0, true), ("Fri 22:00-02:00", 4, 1, 0, false),
        ("Sun 22:00-02:00", 0, 1, 0, true),
        ("Mon-Fri 12:00-13:00", 0, 12, 0, true), ("Mon-Fri 12:00-13:00", 4, 12, 0, true),
        ("Mon-Fri 12:00-13:00", 5, 12, 0, false), ("Sat-Mon 12:00-13:00", 0, 12, 0, true),
        ("Sat-Mon 12:00-13:00", 1, 12, 0, false), ("sat-sat 12:00-13:00", 5, 12, 0, true),
        ("sat-sat 12:00-13:00", 4, 12, 0, false),
        ("always", 0, 0, 0, true), ("always", 6, 23, 59, true),
        ("02:00-03:00,Wed 12:00-13:00", 2, 12, 30, true), ("02:00-03:00,Wed 12:00-13:00", 1, 12, 30, false),
        ("02:00-03:00, Wed 12:00-13:00", 1, 2, 30, true),
    ]) func `opens windows from their first to their last minute`(
        text: String, day: Int, hour: Int, minute: Int, isOpen: Bool
    ) throws {
        #expect(try Self.isOpen(text, day, hour, minute) == isOpen)
    }

    /// The clock went from 02:00 to 03:00 on Sunday.
    @Test(arguments: [
        ("02:00-02:30", 3, 10, true), ("02:00-02:30", 3, 30, false), ("02:00-03:00", 3, 59, true),
        ("03:00-04:00", 3, 10, true),
        ("Sun 02:00-02:30", 3, 10, true), ("Sat 02:00-02:30", 3, 10, false), ("01:00-02:00", 3, 10, false),
    ]) func `opens a window in the hour that the clock skipped after it`(
        text: String, hour: Int, minute: Int, isOpen: Bool
    ) throws {
        let time = ActivationWindows.LocalTime(day: 6, minute: hour * 60 + minute, skipped: 60)
        #expect(try ActivationWindows(parsing: text).isOpen(at: time) == isOpen)
    }

    @Test(arguments: [
        "", ",", "02:00", "02:00-", "-04:00", "2:00-4:00", "02:60-04:00", "24:00-01:00", "25:00-26:00", "02:00-24:01",
        "02:00-02:00", "Mo 02:00-04:00", "Mon-Fri-Sun 02:00-04:00", "Mon Tue 02:00-04:00", "Mon- 02:00-04:00",
        "02:00-04:00,", "02:00–04:00", "+2:00-04:00", "Mon-Fri", "02.00-04.00", "Always", "Mon always",
    ]) func `refuses an invalid window with an example in the message`(text: String) throws {
        let error = try #require(throws: ActivationWindowsError.self) { try ActivationWindows(parsing: text) }
        #expect(error.description.contains("02:00-04:00") && error.description.contains("always"))
    }
}
