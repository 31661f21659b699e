import CLibrary

/// Character classes and comparisons of RFC 9110 and 9112, on bytes.
package enum HTTPBytes {
    package static let space = UInt8(ascii: " ")
    static let tab = UInt8(ascii: "\t")
    package static let carriageReturn = UInt8(ascii: "\r")
    package static let lineFeed = UInt8(ascii: "\n")
    package static let colon = UInt8(ascii: ":")
    static let comma = UInt8(ascii: ",")
    package static let slash = UInt8(ascii: "/")
    static let quote = UInt8(ascii: "\"")

    // tchar of RFC 9110, section 5.6.2: one bit for each byte below 128.
    private static let tokenLow: UInt64 = 0x03FF_6CFA_0000_0000
    private static let tokenHigh: UInt64 = 0x57FF_FFFF_C7FF_FFFE

    static func isToken(_ byte: UInt8) -> Bool {
        if byte < 64 { return tokenLow >> UInt64(byte) & 1 == 1 }
        return byte < 128 && tokenHigh >> UInt64(byte - 64) & 1 == 1
    }

    /// Returns whether the byte may be part of a field value: visible ASCII, space, tab, and bytes above ASCII.
    static func isValue(_ byte: UInt8) -> Bool { byte >= 0x20 ? byte != 0x7F : byte == tab }

    static func isBlank(_ byte: UInt8) -> Bool { byte == space || byte == tab }

    package static func isDigit(_ byte: UInt8) -> Bool { byte &- UInt8(ascii: "0") < 10 }

    package static func isLetter(_ byte: UInt8) -> Bool { (byte | 0x20) &- UInt8(ascii: "a") < 26 }

    /// Returns the value of a hexadecimal digit; nil for another byte.
    static func hexValue(_ byte: UInt8) -> UInt8? {
        if isDigit(byte) { return byte - UInt8(ascii: "0") }
        let letter = (byte | 0x20) &- UInt8(ascii: "a")
        return letter < 6 ? letter + 10 : nil
    }

    /// Returns whether `bytes` equal `text`, which is not empty.
    static func areEqual(_ bytes: UnsafeRawBufferPointer, _ text: StaticString) -> Bool {
        guard bytes.count == text.utf8CodeUnitCount, let start = bytes.baseAddress else { return false }
        return memcmp(start, text.utf8Start, bytes.count) == 0
    }

    /// Returns whether `bytes` equal `text` in any case. `text` has lowercase letters and hyphens only.
    package static func areSame(_ bytes: UnsafeRawBufferPointer, _ text: StaticString) -> Bool {
        guard bytes.count == text.utf8CodeUnitCount else { return false }
        let wanted = text.utf8Start
        for index in 0..<bytes.count where bytes[index] != wanted[index] {
            guard isLetter(bytes[index]), bytes[index] | 0x20 == wanted[index] else { return false }
        }
        return true
    }

    /// Returns `bytes` without leading and trailing blanks.
    package static func trimmed(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var start = 0
        var end = bytes.count
        while start < end, isBlank(bytes[start]) { start += 1 }
        while end > start, isBlank(bytes[end - 1]) { end -= 1 }
        return UnsafeRawBufferPointer(rebasing: bytes[start..<end])
    }

    /// Calls `body` with each trimmed element of a list until it returns true. Returns whether it did.
    static func anyElement(
        of bytes: UnsafeRawBufferPointer, separator: UInt8 = comma, _ body: (UnsafeRawBufferPointer) -> Bool
    ) -> Bool {
        bytes.split(separator: separator).contains { body(trimmed(UnsafeRawBufferPointer(rebasing: $0))) }
    }

    /// Returns the number that `digits` state; nil for other characters and for an overflow.
    static func number(_ digits: UnsafeRawBufferPointer) -> Int? {
        guard !digits.isEmpty else { return nil }
        var total = 0
        for digit in digits {
            guard isDigit(digit) else { return nil }
            let (tenfold, overflowed) = total.multipliedReportingOverflow(by: 10)
            let (sum, overflowedAgain) = tenfold.addingReportingOverflow(Int(digit - UInt8(ascii: "0")))
            if overflowed || overflowedAgain { return nil }
            total = sum
        }
        return total
    }
}
