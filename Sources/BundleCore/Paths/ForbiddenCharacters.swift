/// The code points that a name inside a bundle may not carry: they hide, reorder or end what people and programs see.
enum ForbiddenCharacters {
    /// Answers for one code point; the ASCII part is also what the byte-wise fast path tests.
    static func contains(_ value: UInt32) -> Bool {
        if value < 0x80 { return value < 0x20 || value == 0x7F || value == 0x5C }
        switch value {
        case 0x80...0x9F: return true  // C1 controls
        case 0x2028, 0x2029: return true  // line and paragraph separator
        case 0x061C, 0x200E, 0x200F, 0x202A...0x202E, 0x2066...0x2069: return true  // bidirectional controls
        case 0x00AD, 0x180E, 0x200B...0x200D, 0x2060...0x2064, 0xFEFF: return true  // zero width, invisible
        case 0xE0000...0xE007F: return true  // tags
        default: return false
        }
    }
}
