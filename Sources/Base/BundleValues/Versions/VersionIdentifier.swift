/// One dot-separated piece of a semantic version; numbers stay digits, so that no size overflows.
struct VersionIdentifier: Hashable, Sendable {
    let bytes: [UInt8]
    let isNumeric: Bool

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = Array(bytes)
        isNumeric = bytes.allSatisfy(\.isASCIIDigit)
    }

    /// Whether only `[0-9A-Za-z-]` occurs.
    var isWellFormed: Bool {
        bytes.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") }
    }
}

extension VersionIdentifier: Comparable {
    /// Numbers by value and before words, words by ASCII order (section 11.4).
    ///
    /// Without leading zeros, the longer number is the greater one.
    static func < (left: VersionIdentifier, right: VersionIdentifier) -> Bool {
        if left.isNumeric != right.isNumeric { return left.isNumeric }
        if left.isNumeric, left.bytes.count != right.bytes.count { return left.bytes.count < right.bytes.count }
        return left.bytes.lexicographicallyPrecedes(right.bytes)
    }
}
