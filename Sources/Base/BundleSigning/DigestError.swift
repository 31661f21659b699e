/// Why a text is not a SHA-256 digest.
package enum DigestError: Error, Hashable, CustomStringConvertible {
    /// The text has another length than 64 bytes.
    case wrongLength(found: Int)
    /// A byte other than `0`-`9` and `a`-`f` stands at this offset; capitals are refused, so that a digest has one spelling.
    case notLowerCaseHex(offset: Int)

    /// What is wrong with the text, and what is wanted.
    package var description: String {
        switch self {
        case .wrongLength(let found):
            "a SHA-256 digest is 64 lower-case hex digits, this text has \(found) bytes"
        case .notLowerCaseHex(let offset):
            "a SHA-256 digest is 64 lower-case hex digits, the byte at offset \(offset) is not one"
        }
    }
}
