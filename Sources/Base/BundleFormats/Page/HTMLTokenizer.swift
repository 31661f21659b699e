import BundleValues

/// The states of the HTML tokenizer (HTML standard, section 13.2.5) that decide where tags and raw text end.
///
/// Accepts any bytes, and reads each a bounded number of times.
struct HTMLTokenizer {
    struct Tag {
        let start: Int
        let name: String
        let isEnd: Bool
        var isSelfClosing = false
        /// The ranges of the values, the first of each name. Kept only for start tags of described elements.
        var attributes: [String: Range<Int>] = [:]
    }

    enum Token {
        case tag(Tag)
        case doctype
        case comment
        case text(isBlank: Bool)
    }

    private let page: [UInt8]
    private let described: Set<String>?
    /// The offset behind the last token; at the end, the start of the unfinished token.
    private(set) var index: Int

    /// Starts at `index` of `page`. Keeps the attributes of `described` elements, or of all if that is nil.
    init(_ page: [UInt8], from index: Int, describing described: Set<String>?) {
        self.page = page
        self.index = index
        self.described = described
    }

    /// Returns the next token. Returns nil at the end, and if the page ends inside a token, which browsers drop.
    mutating func next(isForeign: Bool) -> Token? {
        if index >= page.count { return nil }
        if !startsMarkup(index) { return text() }
        if let second = byte(index + 1), second.isASCIILetter { return tag(nameAt: index + 1) }
        if byte(index + 1) == UInt8(ascii: "/") {
            if let third = byte(index + 2), third.isASCIILetter { return tag(nameAt: index + 2) }
            return skip(behind: ">", from: index + 2, as: .comment)
        }
        if matches("<!--", at: index) { return comment() }
        if matches("<!doctype", at: index) { return skip(behind: ">", from: index + 9, as: .doctype) }
        if isForeign && matches("<![CDATA[", at: index) {
            return skip(behind: "]]>", from: index + 9, as: .text(isBlank: false))
        }
        return skip(behind: ">", from: index + 2, as: .comment)
    }

    // MARK: Text and comments

    private func startsMarkup(_ at: Int) -> Bool {
        guard page[at] == UInt8(ascii: "<"), let second = byte(at + 1) else { return false }
        return second.isASCIILetter || second == UInt8(ascii: "!") || second == UInt8(ascii: "?")
            || second == UInt8(ascii: "/")
    }

    private mutating func text() -> Token {
        var isBlank = true
        repeat {
            if !Self.isSpace(page[index]) { isBlank = false }
            index += 1
        } while index < page.count && !startsMarkup(index)
        return .text(isBlank: isBlank)
    }

    private mutating func skip(behind ending: StaticString, from start: Int, as token: Token) -> Token? {
        var at = start
        while at < page.count {
            if matches(ending, at: at) {
                index = at + ending.utf8CodeUnitCount
                return token
            }
            at += 1
        }
        return nil
    }

    /// Ends at `-->`, which may share its dashes with `<!--`, or at `--!>`, which may not.
    private mutating func comment() -> Token? {
        var at = index + 2
        while at < page.count {
            if matches("-->", at: at) {
                index = at + 3
                return .comment
            }
            if at >= index + 4 && matches("--!>", at: at) {
                index = at + 4
                return .comment
            }
            at += 1
        }
        return nil
    }

    // MARK: Raw text

    /// Reads the raw text after the start tag of `name` and its end tag. Returns the range of the text.
    ///
    /// Returns nil if the page ends first; `index` then stays.
    mutating func rawText(of name: String) -> Range<Int>? {
        let start = index
        let isScript = name == "script"
        var escape = Escape.none
        var at = index
        while at < page.count {
            if page[at] == UInt8(ascii: "<") {
                if isScript && escape == .none && matches("<!--", at: at) {
                    escape = .once
                    at += 2
                    continue
                }
                if escape == .once && isTagName("script", at: at + 1) {
                    escape = .twice
                } else if byte(at + 1) == UInt8(ascii: "/") && isTagName(name, at: at + 2) {
                    if escape != .twice { return end(start..<at) }
                    escape = .once
                }
            } else if escape != .none && matches("-->", at: at) {
                escape = .none
            }
            at += 1
        }
        return nil
    }

    /// Inside `<!--`, a nested `<script>` ends at the first end tag.
    private enum Escape { case none, once, twice }

    private mutating func end(_ text: Range<Int>) -> Range<Int>? {
        let start = index
        index = text.upperBound
        if tag(nameAt: index + 2) != nil { return text }
        index = start
        return nil
    }

    private func isTagName(_ name: String, at start: Int) -> Bool {
        var at = start
        for wanted in name.utf8 {
            guard let found = byte(at), found.asciiLowered == wanted else { return false }
            at += 1
        }
        return byte(at).map { Self.isSpace($0) || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: ">") } ?? false
    }

    // MARK: Tags

    private mutating func tag(nameAt nameStart: Int) -> Token? {
        var at = nameStart
        while let found = byte(at), !Self.endsTagName(found) { at += 1 }
        // All relevant names are shorter.
        let name = String(decoding: page[nameStart..<min(at, nameStart + 16)].map(\.asciiLowered), as: UTF8.self)
        var tag = Tag(start: index, name: name, isEnd: nameStart == index + 2)
        while let found = byte(at) {
            switch found {
            case UInt8(ascii: ">"):
                index = at + 1
                return .tag(tag)
            case UInt8(ascii: "/"):
                at += 1
                tag.isSelfClosing = byte(at) == UInt8(ascii: ">")
            case _ where Self.isSpace(found):
                at += 1
            default:
                guard let behind = attribute(at: at, of: &tag) else { return nil }
                at = behind
            }
        }
        return nil
    }

    /// Reads one attribute. Returns the offset behind it; nil if the page ends inside it.
    private func attribute(at start: Int, of tag: inout Tag) -> Int? {
        var at = start + 1
        while let found = byte(at), !Self.endsTagName(found), found != UInt8(ascii: "=") { at += 1 }
        let name = start..<at
        at = behindSpaces(at)
        var value = at..<at
        if byte(at) == UInt8(ascii: "=") {
            at = behindSpaces(at + 1)
            guard let first = byte(at) else { return nil }
            if first == UInt8(ascii: "\"") || first == UInt8(ascii: "'") {
                guard let quote = page[(at + 1)...].firstIndex(of: first) else { return nil }
                value = at + 1..<quote
                at = quote + 1
            } else {
                let valueStart = at
                while let found = byte(at), !Self.isSpace(found), found != UInt8(ascii: ">") { at += 1 }
                value = valueStart..<at
            }
        }
        if !tag.isEnd && described?.contains(tag.name) != false {
            let key = String(decoding: page[name].map(\.asciiLowered), as: UTF8.self)
            if tag.attributes[key] == nil { tag.attributes[key] = value }
        }
        return at
    }

    // MARK: Bytes

    private func byte(_ at: Int) -> UInt8? { at < page.count ? page[at] : nil }

    private func behindSpaces(_ start: Int) -> Int {
        var at = start
        while let found = byte(at), Self.isSpace(found) { at += 1 }
        return at
    }

    /// Compares without ASCII case.
    private func matches(_ text: StaticString, at start: Int) -> Bool {
        let count = text.utf8CodeUnitCount
        if count > page.count - start { return false }
        for offset in 0..<count
        where page[start + offset].asciiLowered != text.utf8Start[offset].asciiLowered {
            return false
        }
        return true
    }

    static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0C || byte == 0x0D
    }

    private static func endsTagName(_ byte: UInt8) -> Bool {
        isSpace(byte) || byte == UInt8(ascii: "/") || byte == UInt8(ascii: ">")
    }
}
