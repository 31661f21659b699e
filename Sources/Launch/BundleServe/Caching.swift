/// Values of `Cache-Control`, and the rules that choose one for a file.
enum Caching {
    /// Kept by nobody.
    static let never = "no-store"
    /// Kept, and asked about at each use.
    static let revalidated = "no-cache"
    /// Kept for a year under this URL. A reload asks again: nothing here proves that the URL names the content.
    static let lasting = "public, max-age=31536000"
    /// The same without asking, for the names that builders make of the content.
    static let immutable = "public, max-age=31536000, immutable"
    /// The same for what not everybody may have: no cache between may keep it.
    static let privateImmutable = "private, max-age=31536000, immutable"
    /// Kept, and asked about at each use, by who may have it.
    static let privateRevalidated = "private, no-cache"

    /// Whether a name holds a run of 16 or more hex digits, both letters and digits: what builders put into the names of files
    /// whose content never changes. Numbers alone, such as dates, are not taken for one.
    static func carriesHash(_ name: ArraySlice<UInt8>) -> Bool {
        var run = (length: 0, hasDigit: false, hasLetter: false)
        for byte in name {
            guard HTTPBytes.hexValue(byte) != nil else {
                run = (0, false, false)
                continue
            }
            run.length += 1
            if HTTPBytes.isDigit(byte) { run.hasDigit = true } else { run.hasLetter = true }
            if run.length >= 16 && run.hasDigit && run.hasLetter { return true }
        }
        return false
    }

    /// Whether a path holds 40 lower-case hex digits in a row, as the paths of Meteor's merged files and source maps do.
    static func carriesLabel(_ path: [UInt8]) -> Bool {
        var length = 0
        for byte in path {
            let isHex = HTTPBytes.isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
            length = isHex ? length + 1 : 0
            if length == 40 { return true }
        }
        return false
    }
}

/// Entity tags in conditions (RFC 9110, section 13).
enum EntityTag {
    /// Whether `If-None-Match` names `tag` (with its quotes), or anything at all; compares weakly.
    static func isNamed(_ tag: [UInt8], in condition: UnsafeRawBufferPointer) -> Bool {
        isNamed(tag, in: condition, strongly: false)
    }

    /// Whether `If-Match` names `tag`, or anything at all; compares strongly.
    static func isMatched(_ tag: [UInt8], by condition: UnsafeRawBufferPointer) -> Bool {
        isNamed(tag, in: condition, strongly: true)
    }

    private static func isNamed(
        _ tag: [UInt8], in condition: UnsafeRawBufferPointer, strongly: Bool
    ) -> Bool {
        if HTTPBytes.areEqual(condition, "*") { return true }
        var rest = condition[...]
        while let element = next(&rest) {
            let named = !strongly && element.starts(with: "W/".utf8) ? element.dropFirst(2) : element
            if named.elementsEqual(tag) { return true }
        }
        return false
    }

    /// A word as a strong tag, with quotes; nil where it is empty or has bytes that no tag may have.
    static func quoting(_ word: String) -> [UInt8]? {
        guard !word.isEmpty, word.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != HTTPBytes.quote }) else {
            return nil
        }
        return [HTTPBytes.quote] + Array(word.utf8) + [HTTPBytes.quote]
    }

    /// Takes a tag off a list; tags may have commas in them, so quotes are what counts. Nil at the end and for what is no tag.
    private static func next(_ rest: inout Slice<UnsafeRawBufferPointer>) -> Slice<UnsafeRawBufferPointer>? {
        rest = rest.drop { HTTPBytes.isBlank($0) || $0 == HTTPBytes.comma }
        guard let opening = rest.prefix(3).firstIndex(of: HTTPBytes.quote),
            let closing = rest[(opening + 1)...].firstIndex(of: HTTPBytes.quote)
        else { return nil }
        let element = rest[...closing]
        rest = rest[(closing + 1)...]
        return element
    }
}

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
