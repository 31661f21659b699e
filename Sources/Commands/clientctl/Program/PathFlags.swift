/// The flags with paths as values. In a configuration file, a relative path starts at the folder of that file.
enum PathFlags {
    /// The flags that take only a path, an address or `none`.
    private static let plain: Set = [
        "access-log", "archive-maps", "ca-file", "cache", "channel-key", "channel-sign-public-key", "client-cert",
        "client-key", "expect", "feed", "guard-key", "guard-sign-public-key", "header-file", "key", "manifest",
        "metrics-file", "mirror-token-file", "new", "new-passphrase-file", "notes", "out", "passphrase-file",
        "phone-key", "previous", "program-key", "public-key", "publisher-state", "rebuild", "release-key", "reports",
        "root-key", "roster", "roster-token-file", "save-failed-picture", "save-picture", "seed", "sign-key",
        "sign-public-key", "starts", "store", "style", "texts", "token-file", "trust", "upstream-token-file",
    ]
    /// The flags that also take a name, a version or the id of a key. For these flags, only a path contains a slash.
    private static let mixed: Set = ["channel", "delta-from", "old", "to"]

    /// Returns `value` of `flag` relative to `folder`, the folder of the configuration file, if it is a relative path. Returns other
    /// values unchanged.
    static func resolve(_ value: String, of flag: String, in folder: String) -> String {
        guard plain.contains(flag) || (mixed.contains(flag) && value.contains("/")), !folder.isEmpty, !value.isEmpty,
            value != "none", !value.hasPrefix("/"), !value.prefix(while: { $0 != "/" }).contains(":")
        else { return value }
        return "\(folder)/\(value)"
    }
}
