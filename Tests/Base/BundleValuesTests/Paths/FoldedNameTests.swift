import BundleValues
import Testing

@Suite("FoldedName") struct FoldedNameTests {
    @Test(arguments: [
        ("A.js", "a.js"), ("AZ/az", "az/AZ"), ("\u{212A}.js", "k.js"), ("\u{212A}", "K"), ("\u{E9}", "e\u{301}"),
        ("\u{C9}", "e\u{301}"), ("\u{17F}", "s"), ("\u{17F}", "S"), ("ß", "ss"), ("ß", "SS"), ("ẞ", "ß"), ("ẞ", "ss"),
        ("ﬁ", "fi"), ("ﬃ", "FFI"), ("Σ", "ς"), ("σ", "ς"), ("Ω", "\u{2126}"), ("Å", "\u{212B}"), ("Ж", "ж"),
        ("ǆ", "ǅ"), ("ǆ", "Ǆ"), ("ŉ", "ʼn"), ("İ", "i\u{307}"), ("ᾳ", "αι"), ("Ꭰ", "ꭰ"), ("𐐀", "𐐨"), ("ϴ", "θ"),
        ("ϑ", "θ"),
        ("a\u{FE0F}.js", "a.js"), ("a\u{200D}b", "ab"), ("a\u{34F}b", "AB"), ("x\u{3164}", "x"), ("a\u{E0100}", "a"),
        ("\u{1E9B}\u{323}", "\u{1E69}"), ("q\u{307}\u{323}", "q\u{323}\u{307}"),
    ])
    func `is equal for names that can be one file`(left: String, right: String) {
        #expect(FoldedName(left.utf8) == FoldedName(right.utf8))
        #expect(Set([FoldedName(left.utf8), FoldedName(right.utf8)]).count == 1)
    }

    @Test(arguments: [
        ("a", "b"), ("a.js", "a-js"), ("e", "é"), ("@", "`"), ("[", "{"), ("K", "ĸ"), ("a/b", "ab"), ("o", "ø"),
        ("s", "ʃ"),
        ("fi", "fl"), ("A", "А"), ("１", "1"), ("", "a"), ("\u{DF}", "s"),
    ])
    func `differs for other names`(left: String, right: String) {
        #expect(FoldedName(left.utf8) != FoldedName(right.utf8))
    }

    @Test func `folds all components of a path`() throws {
        #expect(FoldedName("Assets/É.js".utf8) == FoldedName("assets/e\u{301}.JS".utf8))
        #expect(FoldedName("a/b".utf8) != FoldedName("a/c".utf8))
    }
}
