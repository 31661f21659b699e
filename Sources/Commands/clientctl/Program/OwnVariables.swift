import CLibrary

/// The variables that set flags of this program.
///
/// They leave the environment at the start: programs that this one starts inherit the environment, and a variable may contain a passphrase.
enum OwnVariables {
    static let prefix = "CLIENTCTL_"

    /// The values by name.
    private static let values: [String: [UInt8]] = {
        var values: [String: [UInt8]] = [:]
        var next = environ
        while let text = next.pointee {
            next += 1
            let bytes = UnsafeBufferPointer(start: text, count: strlen(text)).map { UInt8(bitPattern: $0) }
            guard bytes.starts(with: prefix.utf8), let equals = bytes.firstIndex(of: UInt8(ascii: "=")) else {
                continue
            }
            let name = String(decoding: bytes[..<equals], as: UTF8.self)
            values[name] = values[name] ?? Array(bytes[(equals + 1)...])
        }
        for name in values.keys { unsetenv(name) }
        return values
    }()

    /// Removes the variables from the environment. Call this while the process has one thread.
    static func take() { _ = values }

    /// The names, sorted.
    static var names: [String] { values.keys.sorted() }

    /// Puts the variables back, for a program that replaces this one.
    static func restore() {
        for (name, value) in values { setenv(name, String(decoding: value, as: UTF8.self), 1) }
    }

    /// Returns the value of the variable `name`; nil if it is not set.
    static func value(of name: String) -> [UInt8]? { values[name] }
}
