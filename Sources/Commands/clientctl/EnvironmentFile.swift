/// A file of variables as systemd reads it (`EnvironmentFile=` in systemd.exec(5)): `NAME=value` in each line, with quotes and comments.
enum EnvironmentFile {
    /// The variables in their order. A line that is not an assignment is ignored, as systemd ignores it.
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

    /// Takes a value off `rest`: quoted and plain parts up to the end of the line, which a backslash continues.
    private static func value(_ rest: inout Substring) -> String {
        var value = ""
        // White space at the end of a value that is not quoted is not part of it.
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
