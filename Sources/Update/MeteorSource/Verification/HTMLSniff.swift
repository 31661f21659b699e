import BundleValues

/// Tells HTML from what a server should have sent in its place.
enum HTMLSniff {
    /// How many bytes of an answer are looked at.
    static let length = 1024

    /// Whether the first byte that is not white space opens a tag; no JSON does that.
    static func isMarkup(_ head: ArraySlice<UInt8>) -> Bool { withoutSpace(head).first == UInt8(ascii: "<") }

    /// Whether this is the head of an HTML or XML page and so neither a script nor a style sheet.
    ///
    /// Both may begin with `<!--` (ECMAScript annex B.1.1, CSS Syntax section 4.3.5), so comments are passed over; behind
    /// `<` neither may have a letter, `!` with a letter, or `?`.
    static func isPage(_ head: ArraySlice<UInt8>) -> Bool {
        var rest = withoutSpace(head)
        while rest.starts(with: "<!--".utf8) {
            guard let end = endOfComment(rest) else { return false }
            rest = withoutSpace(rest[end...])
        }
        guard rest.first == UInt8(ascii: "<") else { return false }
        rest = rest.dropFirst()
        if rest.first == UInt8(ascii: "?") { return true }
        if rest.first == UInt8(ascii: "!") { rest = rest.dropFirst() }
        return rest.first?.isASCIILetter ?? false
    }

    private static func withoutSpace(_ head: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let text = head.starts(with: [0xEF, 0xBB, 0xBF]) ? head.dropFirst(3) : head
        return text.drop { [0x20, 0x09, 0x0A, 0x0B, 0x0C, 0x0D].contains($0) }
    }

    private static func endOfComment(_ rest: ArraySlice<UInt8>) -> Int? {
        var index = rest.startIndex + 4
        while index + 2 < rest.endIndex {
            if rest[index..<index + 3].elementsEqual("-->".utf8) { return index + 3 }
            index += 1
        }
        return nil
    }
}
