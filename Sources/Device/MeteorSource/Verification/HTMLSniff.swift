import BundleValues

/// Recognizes HTML pages instead of other files.
enum HTMLSniff {
    /// The number of inspected bytes.
    static let length = 1024

    /// Whether the first byte after white space opens a tag, which is impossible in JSON.
    static func isMarkup(_ head: ArraySlice<UInt8>) -> Bool { withoutSpace(head).first == UInt8(ascii: "<") }

    /// Whether the head is that of an HTML or XML page, and not of a script or style sheet.
    ///
    /// Scripts and style sheets can start with `<!--` (ECMAScript annex B.1.1, CSS Syntax section 4.3.5), so comments are
    /// skipped. After `<` neither can have a letter, `!` with a letter, or `?`.
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
