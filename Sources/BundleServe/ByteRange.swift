/// `Range` requests (RFC 9110, section 14): single ranges of bytes; several, and what is no range, are the whole.
enum ByteRange: Equatable {
    case whole
    case part(Range<Int>)
    case unsatisfiable

    /// Reads the field's value for a file of `size` bytes.
    init(parsing value: UnsafeRawBufferPointer, size: Int) {
        self = .whole
        guard value.count > 6, value[5] == UInt8(ascii: "="),
            HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: value[..<5]), "bytes")
        else { return }
        let range = value[6...]
        guard let hyphen = range.firstIndex(of: UInt8(ascii: "-")) else { return }
        switch (Self.bound(range[..<hyphen]), Self.bound(range[(hyphen + 1)...])) {
        case (.none, .number(let count)):
            self = count == 0 || size == 0 ? .unsatisfiable : .part(size - min(count, size)..<size)
        case (.number(let first), .none):
            self = first < size ? .part(first..<size) : .unsatisfiable
        case (.number(let first), .number(let last)) where first <= last:
            self = first < size ? .part(first..<min(last, size - 1) + 1) : .unsatisfiable
        default: return
        }
    }

    private enum Bound { case none, number(Int), invalid }

    /// A number too large for us is beyond the end of every file, which is all that matters.
    private static func bound(_ digits: Slice<UnsafeRawBufferPointer>) -> Bound {
        if digits.isEmpty { return .none }
        guard digits.allSatisfy(HTTPBytes.isDigit) else { return .invalid }
        return .number(HTTPBytes.number(UnsafeRawBufferPointer(rebasing: digits)) ?? .max)
    }
}
