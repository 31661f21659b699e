/// The help of a command.
enum HelpText {
    /// Returns `text`, a help of the parser, with the flags that have no title before the sections with one.
    static func usualFirst(_ text: String) -> String {
        let end = text.lastIndex { $0 != "\n" }.map(text.index(after:)) ?? text.endIndex
        var sections = text[..<end].split(separator: "\n\n", omittingEmptySubsequences: false)
        guard let usage = sections.firstIndex(where: { $0.hasPrefix("USAGE: ") }),
            let options = sections.lastIndex(where: { $0.hasPrefix("OPTIONS:\n") }), options > usage
        else { return text }
        let usual = sections.remove(at: options)
        let arguments = sections.firstIndex { $0.hasPrefix("ARGUMENTS:\n") }
        sections.insert(usual, at: (arguments ?? usage) + 1)
        return sections.joined(separator: "\n\n")
    }
}
