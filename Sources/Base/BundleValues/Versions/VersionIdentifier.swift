/// An identifier of a semantic version. Numbers are stored as digits, so that none overflows.
struct VersionIdentifier: Hashable, Sendable {
    let bytes: [UInt8]
    let isNumeric: Bool

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = Array(bytes)
        isNumeric = bytes.allSatisfy(\.isASCIIDigit)
    }

    /// Whether all characters are in `[0-9A-Za-z-]`.
    var isWellFormed: Bool {
        bytes.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") }
    }
}

extension VersionIdentifier: Comparable {
    /// Sorts numbers by value and before words, and words in ASCII order (section 11.4 of the specification).
    ///
    /// Numbers have no leading zeros, so the longer one is greater.
    static func < (left: VersionIdentifier, right: VersionIdentifier) -> Bool {
        if left.isNumeric != right.isNumeric { return left.isNumeric }
        if left.isNumeric, left.bytes.count != right.bytes.count { return left.bytes.count < right.bytes.count }
        return left.bytes.lexicographicallyPrecedes(right.bytes)
    }
}
