import ArgumentParser
import BundleCore
import BundleValues

/// The values of flags, parsed from their text. Errors name the flag.
enum FlagValue {
    /// Returns the value of a required flag. Throws `MissingFlag` if it is not set or empty.
    static func required(_ text: String?, of name: String) throws -> String {
        guard let text, !text.isEmpty else { throw MissingFlag(flags: [name]) }
        return text
    }

    /// Returns the folder of a flag, for the sandbox of a command; empty if it is not set.
    static func folders(_ path: String?) -> [String] { path.map { [$0] }?.filter { !$0.isEmpty } ?? [] }

    /// Returns the parsed value of a flag. Throws `ValidationError` with the name of the flag if parsing fails.
    static func parsed<Value>(_ text: String, of name: String, by parse: (String) throws -> Value) throws -> Value {
        do {
            return try parse(text)
        } catch {
            throw ValidationError("--\(name): \(error)")
        }
    }

    static func duration(_ text: String?, of name: String) throws -> Duration? {
        try text.map { try duration($0, of: name) }
    }

    static func duration(_ text: String, of name: String) throws -> Duration {
        try parsed(text, of: name) { try DurationText(parsing: $0).duration }
    }

    /// Returns a number of bytes, such as that of `256kB`.
    static func bytes(_ text: String?, of name: String) throws -> Int? {
        try text.map { try bytes($0, of: name) }
    }

    static func bytes(_ text: String, of name: String) throws -> Int {
        try parsed(text, of: name) { try ByteCount(parsing: $0).bytes }
    }

    static func version(_ text: String?, of name: String) throws -> SemanticVersion? {
        try text.map { try version($0, of: name) }
    }

    static func version(_ text: String, of name: String) throws -> SemanticVersion {
        try parsed(text, of: name) { try SemanticVersion(parsingArgument: $0) }
    }

    static func url(_ text: String, of name: String) throws -> FetchURL {
        try parsed(text, of: name) { try FetchURL(parsing: $0) }
    }

    static func startupTimeout(_ text: String?) throws -> StartupTimeout {
        guard let text else { return .standard }
        return try parsed(text, of: "startup-timeout") { try StartupTimeout(try DurationText(parsing: $0).duration) }
    }

    /// Returns the number of clients to keep.
    static func keep(_ text: String?) throws -> Int {
        try integer(text, of: "keep", atLeast: 1) ?? RetentionRule.defaultKeep
    }

    /// Returns the port to listen on; 0 is any free port.
    static func port(_ text: String?) throws -> Int? {
        try integer(text, of: "port", atLeast: 0, atMost: Int(UInt16.max))
    }

    static func integer(
        _ text: String?, of name: String, atLeast minimum: Int, atMost maximum: Int = .max
    ) throws -> Int? {
        try text.map { try integer($0, of: name, atLeast: minimum, atMost: maximum) }
    }

    /// Returns an integer from `minimum` to `maximum`. Throws `ValidationError` otherwise.
    static func integer(
        _ text: String, of name: String, atLeast minimum: Int, atMost maximum: Int = .max
    ) throws -> Int {
        guard let number = Int(text), minimum...maximum ~= number else {
            let range = maximum == .max ? "of \(minimum) or more" : "from \(minimum) to \(maximum)"
            throw ValidationError("--\(name) takes a whole number \(range), not \(UntrustedName.display(text)).")
        }
        return number
    }
}
