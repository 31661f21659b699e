/// Parses a file of variables as systemd does (`EnvironmentFile=` in systemd.exec(5)): one `NAME=value` a line, with quotes and comments.
enum EnvironmentFile {
    /// A file of variables.
    struct Content {
        /// The variables in their order.
        var variables: [(name: String, value: String)] = []
        /// The beginnings of lines that are not assignments, such as `export NAME`. The service manager ignores these lines.
        var ignored: [String] = []
    }

    /// Returns the variables of a file. The values of names in `ignored` are not part of the result.
    static func parse(_ text: String) -> Content {
        var content = Content()
        var rest = Substring(text.replacing("\r\n", with: "\n"))
        while !rest.isEmpty {
            rest = rest.drop { $0.isWhitespace }
            if rest.first == "#" || rest.first == ";" {
                rest = rest.drop { $0 != "\n" }
                continue
            }
            let name = rest.prefix { $0 != "=" && $0 != "\n" }
            rest = rest[name.endIndex...]
            let trimmed = String(name.reversed().drop { $0.isWhitespace }.reversed())
            guard rest.first == "=" else {
                if !trimmed.isEmpty { content.ignored.append(trimmed) }
                continue
            }
            rest = rest.dropFirst()
            let value = value(&rest)
            if trimmed.isEmpty || trimmed.contains(where: \.isWhitespace) {
                content.ignored.append(trimmed)
            } else {
                content.variables.append((trimmed, value))
            }
        }
        return content
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
