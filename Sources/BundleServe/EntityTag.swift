/// Entity tags in conditions (RFC 9110, section 13).
enum EntityTag {
    /// Whether `If-None-Match` names `tag` (with its quotes), or anything at all; compares weakly.
    static func isNamed(_ tag: [UInt8], in condition: UnsafeRawBufferPointer) -> Bool {
        if HTTPBytes.areEqual(condition, "*") { return true }
        var rest = condition[...]
        while let element = next(&rest) {
            let strong = element.starts(with: "W/".utf8) ? element.dropFirst(2) : element
            if strong.elementsEqual(tag) { return true }
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
