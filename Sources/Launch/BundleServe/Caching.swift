/// Values of `Cache-Control`.
enum Caching {
    /// No cache keeps it.
    static let never = "no-store"
    /// A cache keeps it and revalidates it at each use. Every file of a client is sent with this: releases follow each other at one
    /// address, and no name of a file proves that its content is the same in the next release.
    static let revalidated = "no-cache"
    /// A cache keeps it for a year without a revalidation, for files of a feed, whose addresses name the release.
    static let immutable = "public, max-age=31536000, immutable"
    /// The same in the cache of the device alone, where the feed requires a token.
    static let privateImmutable = "private, max-age=31536000, immutable"
    /// The cache of the device alone keeps it and revalidates it at each use.
    static let privateRevalidated = "private, no-cache"
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
