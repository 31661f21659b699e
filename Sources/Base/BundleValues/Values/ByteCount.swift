/// A number of bytes that is read from and written for people.
package struct ByteCount: Sendable, Hashable {
    package var bytes: Int

    package init(bytes: Int) { self.bytes = bytes }

    /// Accepts digits with an optional unit directly after them: B, kB, KB, MB, GB (powers of 1000), KiB, MiB, GiB
    /// (powers of 1024).
    package init(parsing text: some StringProtocol) throws(ByteCountError) {
        let shown = UntrustedName.display(text)
        guard let number = LeadingNumber(text) else { throw .notASize(text: shown) }
        guard let factor = Self.factor(of: number.unit) else { throw .unknownUnit(text: shown) }
        guard let value = number.value, case let (bytes, overflowed) = value.multipliedReportingOverflow(by: factor),
            !overflowed
        else { throw .tooLarge(text: shown) }
        self.init(bytes: bytes)
    }

    private static func factor(of unit: Substring) -> Int? {
        switch unit {
        case "", "B": 1
        case "kB", "KB": 1_000
        case "MB": 1_000_000
        case "GB": 1_000_000_000
        case "KiB": 1 << 10
        case "MiB": 1 << 20
        case "GiB": 1 << 30
        default: nil
        }
    }
}

extension ByteCount: Comparable, CustomStringConvertible {
    package static func < (left: ByteCount, right: ByteCount) -> Bool { left.bytes < right.bytes }

    /// The size in decimal units with one rounded digit: `512 bytes`, `182.1 MB`.
    package var description: String {
        let sign = bytes < 0 ? "-" : ""
        let magnitude = bytes.magnitude
        if magnitude < 1000 { return magnitude == 1 ? "\(sign)1 byte" : "\(sign)\(magnitude) bytes" }
        var unit: UInt = 1000
        var names = ["kB", "MB", "GB", "TB"][...]
        var tenths = Self.tenths(magnitude, of: unit)
        while tenths >= 10_000, names.count > 1 {
            unit *= 1000
            names = names.dropFirst()
            tenths = Self.tenths(magnitude, of: unit)
        }
        return "\(sign)\(tenths / 10).\(tenths % 10) \(names.first ?? "")"
    }

    /// Rounds half up. It divides before it multiplies, because ten times `magnitude` can overflow.
    private static func tenths(_ magnitude: UInt, of unit: UInt) -> UInt {
        let (whole, rest) = magnitude.quotientAndRemainder(dividingBy: unit)
        return whole * 10 + (rest * 10 + unit / 2) / unit
    }
}

/// The reason why a text is not a size. `text` is printable and has at most one line.
package enum ByteCountError: Error, Sendable, Equatable, CustomStringConvertible {
    case notASize(text: String)
    case unknownUnit(text: String)
    /// The size does not fit into 63 bits.
    case tooLarge(text: String)

    package var description: String {
        switch self {
        case .notASize(let text): "\"\(text)\" is not a size; write it like 4096, 10MB or 256MiB"
        case .unknownUnit(let text): "\"\(text)\" has no known unit; use B, kB, MB, GB, KiB, MiB or GiB"
        case .tooLarge(let text): "the size \"\(text)\" is too large; use less than 8589934592GiB"
        }
    }
}

/// A number at the start of a text such as `10MB`, and the unit after it.
struct LeadingNumber {
    /// The number; nil if it overflows.
    let value: Int?
    let unit: Substring

    /// Returns nil unless the text is ASCII and starts with a digit. A sign or white space is not a digit.
    ///
    /// Outside ASCII, `String` treats the Kelvin sign as equal to the K of a unit.
    init?(_ text: some StringProtocol) {
        guard text.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        let digits = text.utf8.prefix(while: \.isASCIIDigit)
        guard !digits.isEmpty else { return nil }
        value = Int(String(decoding: digits, as: UTF8.self))
        unit = Substring(String(decoding: text.utf8.dropFirst(digits.count), as: UTF8.self))
    }
}
