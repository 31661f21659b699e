/// The properties of a candidate path, from one pass over its bytes. `BundlePath` applies the rules to them.
struct PathSurvey {
    private(set) var components = 0
    private(set) var longestComponent = 0
    private(set) var isTraversing = false
    private(set) var isCanonical = true
    private(set) var isUTF8 = true
    private(set) var forbidden: UInt32?

    init(_ bytes: [UInt8]) {
        var start = 0
        var union: UInt8 = 0
        for index in bytes.indices {
            let byte = bytes[index]
            union |= byte
            if byte == UInt8(ascii: "/") {
                endComponent(bytes, from: start, to: index)
                start = index + 1
            } else if byte < 0x80, forbidden == nil, ForbiddenCharacters.contains(UInt32(byte)) {
                forbidden = UInt32(byte)
            }
        }
        endComponent(bytes, from: start, to: bytes.count)
        if union >= 0x80 { surveyScalars(bytes) }
    }

    /// Compares bytes: a combining mark after `..` forms another `Character`, but not another component.
    private mutating func endComponent(_ bytes: [UInt8], from start: Int, to end: Int) {
        let length = end - start
        components += 1
        longestComponent = max(longestComponent, length)
        if length == 0 { isCanonical = false }
        guard length == 1 || length == 2, bytes[start] == UInt8(ascii: "."), bytes[end - 1] == UInt8(ascii: ".") else {
            return
        }
        if length == 1 { isCanonical = false } else { isTraversing = true }
    }

    private mutating func surveyScalars(_ bytes: [UInt8]) {
        var index = 0
        while index < bytes.count {
            guard let (value, length) = UTF8Decoding.scalar(in: bytes, at: index) else {
                isUTF8 = false
                return
            }
            if forbidden == nil, ForbiddenCharacters.contains(value) { forbidden = value }
            index += length
        }
    }
}

/// The code points that names in a bundle must not contain: they hide, reorder or end what people and programs see.
enum ForbiddenCharacters {
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
