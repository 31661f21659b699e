/// The digits at the start of a text such as `10MB` or `15m`, and what follows them.
struct LeadingNumber {
    /// The number; nil when it does not fit.
    let value: Int?
    let unit: Substring

    /// Nil unless the text is ASCII and starts with a digit; signs and white space are no digits.
    ///
    /// Beyond ASCII, `String` would take the Kelvin sign for the K of a unit.
    init?(_ text: some StringProtocol) {
        guard text.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        let digits = text.utf8.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        guard !digits.isEmpty else { return nil }
        var total: Int? = 0
        for digit in digits {
            total = total.flatMap { Self.append(digit, to: $0) }
        }
        value = total
        unit = Substring(String(decoding: text.utf8.dropFirst(digits.count), as: UTF8.self))
    }

    private static func append(_ digit: UInt8, to total: Int) -> Int? {
        let (tenfold, overflowed) = total.multipliedReportingOverflow(by: 10)
        let (sum, overflowedAgain) = tenfold.addingReportingOverflow(Int(digit - UInt8(ascii: "0")))
        return overflowed || overflowedAgain ? nil : sum
    }
}
