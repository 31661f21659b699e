/// What is left of a name under full case folding, canonical equivalence and removal of default-ignorable code points.
///
/// Two names with equal keys may be one file on some disk. It may join names that Unicode's folding keeps apart
/// (`ı` and `i`). Known gap: marks in a non-canonical order around the Greek iota subscript, U+0345.
package struct FoldedName: Hashable, Sendable {
    /// Compared by Swift's canonical equivalence, which makes NFC and NFD spellings equal.
    private let key: String

    /// Folds a name or a whole path; bytes that are not UTF-8 are folded as U+FFFD.
    package init(_ bytes: some Collection<UInt8>) {
        if bytes.allSatisfy({ $0 < 0x80 }) {
            key = String(decoding: bytes.map(\.asciiLowered), as: UTF8.self)
        } else {
            key = Self.folded(String(decoding: bytes, as: UTF8.self))
        }
    }

    /// A 64-bit hash of the folded name: equal for equal keys; FNV-1a wherever the folded name is ASCII.
    package static func hash(of bytes: ArraySlice<UInt8>) -> UInt64 {
        var hash: UInt64 = 14_695_981_039_346_656_037
        for byte in bytes {
            if byte >= 0x80 { return FoldedName(bytes).hash }
            hash = (hash ^ UInt64(byte.asciiLowered)) &* 1_099_511_628_211
        }
        return hash
    }

    /// A name outside ASCII may still fold into it, as the Kelvin sign does.
    private var hash: UInt64 {
        let bytes = Array(key.utf8)
        return bytes.allSatisfy { $0 < 0x80 }
            ? Self.hash(of: bytes[...]) : UInt64(bitPattern: Int64(key.hashValue))
    }

    /// Lower, upper, lower: the first step is for `ẞ`, which is its own upper case but must meet `ß` at `ss`.
    private static func folded(_ name: String) -> String {
        var visible = String.UnicodeScalarView()
        for scalar in name.unicodeScalars where !scalar.properties.isDefaultIgnorableCodePoint {
            visible.append(scalar)
        }
        return String(visible).lowercased().uppercased().lowercased()
    }
}
