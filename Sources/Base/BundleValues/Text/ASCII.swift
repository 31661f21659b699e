extension UInt8 {
    package var isASCIIDigit: Bool { self &- UInt8(ascii: "0") < 10 }
    package var isASCIILetter: Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(asciiLowered) }
    package var isLowerCaseHexDigit: Bool { isASCIIDigit || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(self) }

    /// An upper-case ASCII letter in lower case; any other byte unchanged.
    package var asciiLowered: UInt8 { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(self) ? self | 0x20 : self }

    package var digitValue: Int? { isASCIIDigit ? Int(self - UInt8(ascii: "0")) : nil }

    /// The value of a hexadecimal digit in either case.
    package var hexValue: UInt8? {
        let lowered = asciiLowered
        guard lowered.isLowerCaseHexDigit else { return nil }
        return isASCIIDigit ? self - UInt8(ascii: "0") : lowered - UInt8(ascii: "a") + 10
    }
}

/// These compare bytes: `String.hasPrefix` fails if a combining mark follows the prefix.
extension String {
    /// Returns the text after an ASCII prefix, or nil if the text does not start with it.
    package func dropping(prefix: String) -> String? {
        utf8.starts(with: prefix.utf8) ? String(Substring(utf8.dropFirst(prefix.utf8.count))) : nil
    }

    /// Returns the text before an ASCII suffix, or nil if the text does not end with it.
    package func dropping(suffix: String) -> String? {
        utf8.reversed().starts(with: suffix.utf8.reversed())
            ? String(Substring(utf8.dropLast(suffix.utf8.count))) : nil
    }
}
