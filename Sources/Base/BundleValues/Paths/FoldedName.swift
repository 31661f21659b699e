/// A name after full case folding, canonical equivalence and removal of default-ignorable code points.
///
/// Two names with equal keys can be one file on some file system. Some names that Unicode's case folding keeps apart have
/// equal keys (`ı` and `i`). Known gap: combining marks in a non-canonical order around the Greek iota subscript, U+0345.
package struct FoldedName: Hashable, Sendable {
    /// `String` compares by canonical equivalence, so NFC and NFD spellings are equal.
    private let key: String

    /// Folds a name or a whole path. Bytes that are not UTF-8 become U+FFFD.
    package init(_ bytes: some Collection<UInt8>) {
        if bytes.allSatisfy({ $0 < 0x80 }) {
            key = String(decoding: bytes.map(\.asciiLowered), as: UTF8.self)
        } else {
            key = Self.folded(String(decoding: bytes, as: UTF8.self))
        }
    }

    /// Returns a 64-bit hash that is equal for equal keys: FNV-1a if the folded name is ASCII.
    package static func hash(of bytes: ArraySlice<UInt8>) -> UInt64 {
        var hash: UInt64 = 14_695_981_039_346_656_037
        for byte in bytes {
            if byte >= 0x80 { return FoldedName(bytes).hash }
            hash = (hash ^ UInt64(byte.asciiLowered)) &* 1_099_511_628_211
        }
        return hash
    }

    /// A name outside ASCII can fold into ASCII, as the Kelvin sign does.
    private var hash: UInt64 {
        let bytes = Array(key.utf8)
        return bytes.allSatisfy { $0 < 0x80 }
            ? Self.hash(of: bytes[...]) : UInt64(bitPattern: Int64(key.hashValue))
    }

    /// Converts to lower, upper and lower case. The first step is for `ẞ`, which has no other upper case but must fold to
    /// `ss` like `ß`.
    private static func folded(_ name: String) -> String {
        var visible = String.UnicodeScalarView()
        for scalar in name.unicodeScalars where !scalar.properties.isDefaultIgnorableCodePoint {
            visible.append(scalar)
        }
        return String(visible).lowercased().uppercased().lowercased()
    }
}
