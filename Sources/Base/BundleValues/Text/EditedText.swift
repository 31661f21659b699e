/// The text of a file that people edit. Editors mark texts in ways that readers of the content do not expect.
package enum EditedText {
    private static let mark: [UInt8] = [0xEF, 0xBB, 0xBF]

    /// Returns `bytes`, the content of the file at `path`, without the byte order mark of UTF-8. Throws `configInvalid` if they are
    /// text in UTF-16 or UTF-32.
    package static func bytes(of bytes: [UInt8], in path: String) throws(UpdateFailure) -> [UInt8] {
        if isWide(bytes) {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) is text in UTF-16 or UTF-32. Save it in UTF-8 with your editor."
            )
        }
        return bytes.starts(with: mark) ? Array(bytes.dropFirst(mark.count)) : bytes
    }

    /// Throws `configInvalid` if `bytes`, the content of the file at `path`, have any mark. Libraries open this file themselves, and
    /// skip its first line without a word.
    package static func requirePlain(_ bytes: [UInt8], in path: String) throws(UpdateFailure) {
        if try self.bytes(of: bytes, in: path).count == bytes.count { return }
        throw UpdateFailure(
            .configInvalid, subject: path, "\(path) begins with a byte order mark. Save it in UTF-8 without the mark.")
    }

    /// Whether the bytes begin with the mark of UTF-16, or with an ASCII letter in two or four bytes.
    private static func isWide(_ bytes: [UInt8]) -> Bool {
        if bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF]) { return true }
        guard bytes.count >= 2 else { return false }
        return (bytes[0] == 0) != (bytes[1] == 0) || bytes.starts(with: [0, 0, 0xFE, 0xFF])
    }
}
