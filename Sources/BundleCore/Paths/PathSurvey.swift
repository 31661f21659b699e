/// What one pass over the bytes of a would-be path found; the verdict is left to `BundlePath`.
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

    /// Compares bytes: a combining mark after `..` makes another Swift Character, never another component.
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
