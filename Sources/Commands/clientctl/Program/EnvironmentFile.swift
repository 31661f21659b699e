/// Parses a file of variables as systemd does (`EnvironmentFile=` in systemd.exec(5)): one `NAME=value` a line, with quotes and comments.
enum EnvironmentFile {
    /// Returns the variables in their order. Ignores lines that are not assignments.
    static func parse(_ text: String) -> [(name: String, value: String)] {
        var variables: [(name: String, value: String)] = []
        var rest = Substring(text.replacing("\r\n", with: "\n"))
        while !rest.isEmpty {
            rest = rest.drop { $0.isWhitespace }
            if rest.first == "#" || rest.first == ";" {
                rest = rest.drop { $0 != "\n" }
                continue
            }
            let name = rest.prefix { $0 != "=" && $0 != "\n" }
            rest = rest[name.endIndex...]
            guard rest.first == "=" else { continue }
            rest = rest.dropFirst()
            let value = value(&rest)
            let trimmed = name.drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed()
            if !trimmed.isEmpty { variables.append((String(trimmed), value)) }
        }
        return variables
    }

    /// Removes a value from the start of `rest`: quoted and plain parts up to the end of the line, which a backslash continues.
    private static func value(_ rest: inout Substring) -> String {
        var value = ""
        // Unquoted white space at the end is not part of the value.
        var kept = 0
        rest = rest.drop { $0 == " " || $0 == "\t" }
        while let character = rest.popFirst(), character != "\n" {
            switch character {
            case "\\":
                guard let next = rest.popFirst() else { break }
                if next != "\n" { value.append(next) }
                kept = value.count
            case "'", "\"":
                while let quoted = rest.popFirst(), quoted != character {
                    if quoted == "\\", character == "\"", let next = rest.first, "\"\\`$\n".contains(next) {
                        rest.removeFirst()
                        if next != "\n" { value.append(next) }
                    } else {
                        value.append(quoted)
                    }
                }
                kept = value.count
            default:
                value.append(character)
                if !character.isWhitespace { kept = value.count }
            }
        }
        return String(value.prefix(kept))
    }
}
