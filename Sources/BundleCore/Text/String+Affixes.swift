/// By bytes: Swift's own would not find an affix whose edge forms one character with a combining mark or the like beside it.
extension String {
    /// What stands behind `prefix`, which is ASCII; nil where the text does not begin with it.
    func dropping(prefix: String) -> String? {
        utf8.starts(with: prefix.utf8) ? String(Substring(utf8.dropFirst(prefix.utf8.count))) : nil
    }

    /// What stands before `suffix`, which is ASCII; nil where the text does not end with it.
    func dropping(suffix: String) -> String? {
        utf8.reversed().starts(with: suffix.utf8.reversed())
            ? String(Substring(utf8.dropLast(suffix.utf8.count))) : nil
    }
}
