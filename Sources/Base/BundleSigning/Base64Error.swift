/// Why a text is not standard base64.
package enum Base64Error: Error, Hashable, CustomStringConvertible {
    /// The text's length is no multiple of four: the padding is missing, or bytes are.
    case wrongLength(found: Int)
    /// The byte at this offset is not of the standard alphabet, or is a `=` before the end.
    case invalidByte(offset: Int)
    /// The last digit has bits set that no byte uses: another spelling of bytes that have a canonical one.
    case unusedBitsSet

    /// What is wrong with the text.
    package var description: String {
        switch self {
        case .wrongLength(let found):
            "base64 comes in groups of four with `=` as padding, this text has \(found) bytes"
        case .invalidByte(let offset):
            "the byte at offset \(offset) is not a digit of standard base64"
        case .unusedBitsSet:
            "the last base64 digit has unused bits set, so this is not the canonical spelling"
        }
    }
}
