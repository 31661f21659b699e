/// Bytes as ASCII, whatever the text around them is.
extension UInt8 {
    /// Whether it is one of 0 to 9.
    package var isASCIIDigit: Bool { self &- UInt8(ascii: "0") < 10 }
    /// Whether it is a letter, of either case.
    package var isASCIILetter: Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(asciiLowered) }
    /// Whether it is one of 0 to 9 and a to f.
    package var isLowerCaseHexDigit: Bool { isASCIIDigit || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(self) }

    /// A capital letter as a small one, and anything else as it is.
    package var asciiLowered: UInt8 { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(self) ? self | 0x20 : self }

    /// The value of a decimal digit.
    package var digitValue: Int? { isASCIIDigit ? Int(self - UInt8(ascii: "0")) : nil }

    /// The value of a hexadecimal digit of either case.
    package var hexValue: UInt8? {
        let lowered = asciiLowered
        guard lowered.isLowerCaseHexDigit else { return nil }
        return isASCIIDigit ? self - UInt8(ascii: "0") : lowered - UInt8(ascii: "a") + 10
    }
}

/// By bytes: Swift's own would not find an affix whose edge forms one character with a combining mark or the like beside it.
extension String {
    /// What stands behind `prefix`, which is ASCII; nil where the text does not begin with it.
    package func dropping(prefix: String) -> String? {
        utf8.starts(with: prefix.utf8) ? String(Substring(utf8.dropFirst(prefix.utf8.count))) : nil
    }

    /// What stands before `suffix`, which is ASCII; nil where the text does not end with it.
    package func dropping(suffix: String) -> String? {
        utf8.reversed().starts(with: suffix.utf8.reversed())
            ? String(Substring(utf8.dropLast(suffix.utf8.count))) : nil
    }
}
