import BundleValues
import CLibrary

/// Colors for words on a terminal.
enum Ink: String {
    case red = "31"
    case yellow = "33"

    /// The words in results that have a color: at the start of a line, or RECALLED anywhere.
    private static let marks: [(word: String, ink: Ink)] = [("failure ", .red), ("warning ", .yellow), ("! ", .yellow)]

    /// Whether a descriptor shows colors: a terminal without NO_COLOR, or anything with CLICOLOR_FORCE.
    static func isShown(on descriptor: Int32) -> Bool {
        if set("NO_COLOR") != nil { return false }
        if let forced = set("CLICOLOR_FORCE"), forced != "0" { return true }
        return isatty(descriptor) == 1 && set("TERM") != "dumb"
    }

    /// Returns the number of columns of a terminal; nil for anything else.
    static func columns(of descriptor: Int32) -> Int? {
        var size = winsize()
        guard isatty(descriptor) == 1, ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col >= 40 else {
            return nil
        }
        return Int(size.ws_col)
    }

    /// Returns a line of a result, without controls, with its marks in color.
    static func result(_ line: String) -> String {
        for (word, ink) in marks where line.hasPrefix(word) { return ink.paint(word) + line.dropFirst(word.count) }
        return line.replacing("RECALLED", with: Ink.red.paint("RECALLED"))
    }

    func paint(_ text: some StringProtocol) -> String { "\u{1B}[\(rawValue)m\(text)\u{1B}[0m" }

    private static func set(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}
