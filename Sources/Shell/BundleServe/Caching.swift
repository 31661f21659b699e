/// Values of `Cache-Control`.
package enum Caching {
    /// Caches do not store the response.
    package static let never = "no-store"
    /// Caches store the response and revalidate it at each use. Every file of a client has this value, because
    /// consecutive releases share one address, and the name of a file does not identify its content.
    package static let revalidated = "no-cache"
    /// Caches store the response for a year without revalidation. For files of a feed, whose addresses contain the
    /// release.
    package static let immutable = "public, max-age=31536000, immutable"
    /// Only the device's own cache stores the response for a year, because the feed requires a token.
    package static let privateImmutable = "private, max-age=31536000, immutable"
    /// Only the device's own cache stores the response, and revalidates it at each use.
    package static let privateRevalidated = "private, no-cache"
}

/// Entity tags in conditions (RFC 9110, section 13).
enum EntityTag {
    /// Returns whether `If-None-Match` contains `tag` (with its quotes) or `*`, by weak comparison.
    static func isNamed(_ tag: [UInt8], in condition: UnsafeRawBufferPointer) -> Bool {
        isNamed(tag, in: condition, strongly: false)
    }

    /// Returns whether `If-Match` contains `tag` or `*`, by strong comparison.
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

    /// Returns `word` as a strong tag with quotes; nil if it is empty or has bytes that a tag must not have.
    static func quoting(_ word: String) -> [UInt8]? {
        guard !word.isEmpty, word.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != HTTPBytes.quote }) else {
            return nil
        }
        return [HTTPBytes.quote] + Array(word.utf8) + [HTTPBytes.quote]
    }

    /// Removes the first tag from a list. Tags may contain commas, so only quotes delimit them. Returns nil at the
    /// end and for an invalid tag.
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

/// `Range` requests (RFC 9110, section 14) for one range of bytes. Several ranges and invalid ones select the whole
/// file.
enum ByteRange: Equatable {
    case whole
    case part(Range<Int>)
    case unsatisfiable

    /// Parses the field's value for a file of `size` bytes.
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

    /// A number above `Int.max` is beyond the end of every file, so its exact value does not matter.
    private static func bound(_ digits: Slice<UnsafeRawBufferPointer>) -> Bound {
        if digits.isEmpty { return .none }
        guard digits.allSatisfy(HTTPBytes.isDigit) else { return .invalid }
        return .number(HTTPBytes.number(UnsafeRawBufferPointer(rebasing: digits)) ?? .max)
    }
}
