import ArgumentParser
import BundleValues
import CLibrary

/// The words of a command line that runs without a shell.
enum CommandWords {
    /// Returns the words of the flag `name`; nil if the flag is not set. Throws `ValidationError` if they cannot be split.
    static func read(_ line: String?, of name: String) throws -> [String]? {
        try line.map { text in
            guard let words = split(text) else {
                throw ValidationError(
                    "--\(name) takes a command with its arguments, quoted if they contain blanks, not "
                        + "\(UntrustedName.display(text)).")
            }
            return words
        }
    }

    /// Throws `UpdateFailure` if `program` does not exist. Otherwise, `serve` would try to start it forever.
    static func requireProgram(_ program: String, of name: String) throws {
        let folders = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        let paths =
            program.contains("/")
            ? [program] : folders.split(separator: ":").map { "\($0)/\(program)" }
        if paths.contains(where: { access($0, X_OK) == 0 }) { return }
        throw UpdateFailure(
            .configInvalid, subject: name,
            "--\(name): the program \(UntrustedName.display(program)) was not found. Install it, or correct the command."
        )
    }

    /// Returns the words of `line`. Blanks separate words, unless they are quoted or follow a backslash. Returns nil if there are no words
    /// or a quote is not closed.
    static func split(_ line: String) -> [String]? {
        var words: [String] = []
        var word: String?
        var quote: Character?
        var isEscaped = false
        for letter in line {
            if isEscaped {
                word = (word ?? "") + String(letter)
                isEscaped = false
            } else if letter == "\\" && quote != "'" {
                isEscaped = true
            } else if letter == quote {
                quote = nil
            } else if quote == nil && (letter == "\"" || letter == "'") {
                quote = letter
                word = word ?? ""
            } else if quote == nil && letter.isWhitespace {
                if let word { words.append(word) }
                word = nil
            } else {
                word = (word ?? "") + String(letter)
            }
        }
        if let word { words.append(word) }
        return quote != nil || isEscaped || words.first?.isEmpty != false ? nil : words
    }

    /// The placeholder of the folder with the browser's profile.
    static let profile = "{profile}"

    /// Returns true if one of `words` contains `name`.
    static func names(_ name: String, in words: [String]) -> Bool { words.contains { $0.contains(name) } }

    /// Returns `words` with their placeholders replaced by `url` and `profile`. Without a placeholder, `url` is appended.
    static func place(_ url: String, profile: String? = nil, in words: [String]) -> [String] {
        let words = profile.map { path in words.map { $0.replacing(Self.profile, with: path) } } ?? words
        return names("{url}", in: words) ? words.map { $0.replacing("{url}", with: url) } : words + [url]
    }
}
