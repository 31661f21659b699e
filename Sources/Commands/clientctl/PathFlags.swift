/// The flags whose values are paths: in a configuration file, a relative path begins in the folder of that file.
enum PathFlags {
    /// The flags whose value is always a path, an address or `none`.
    private static let plain: Set = [
        "access-log", "archive-maps", "ca-file", "channel-key", "channel-public", "feed", "guard-key", "guard-public",
        "key", "manifest", "metrics-file", "new", "new-passphrase-file", "notes", "out", "passphrase-file", "previous",
        "public",
        "publisher-state", "rebuild", "release-key", "reports", "root-key", "seed", "sign-key", "store", "token-file",
        "trust", "upstream-token-file",
    ]
    /// The flags whose value may also be a name, a version or the id of a key. Here only a path contains a slash.
    private static let mixed: Set = ["channel", "delta-from", "old", "to"]

    /// Returns the path of the relative `value` of `flag` in a file in `folder`; other values as they are.
    static func resolve(_ value: String, of flag: String, in folder: String) -> String {
        guard plain.contains(flag) || (mixed.contains(flag) && value.contains("/")), !folder.isEmpty, !value.isEmpty,
            value != "none", !value.hasPrefix("/"), !value.prefix(while: { $0 != "/" }).contains(":")
        else { return value }
        return "\(folder)/\(value)"
    }
}
