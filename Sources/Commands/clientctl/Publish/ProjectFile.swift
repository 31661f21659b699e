import BundleDisk
import BundleValues

/// The settings of a project: flags of the commands that publish, in a file beside the build.
enum ProjectFile {
    static let name = "clientctl.json"

    /// The commands that read the file. The commands of a device do not: `--channel`, for example, is an address for
    /// them.
    private static let commands: Set = ["publish", "release", "channel", "feed", "fleet", "trust", "keys"]

    /// The flags of the file that a command ignores. In the file, they name private keys of releases and channels; commands of trust
    /// roots have flags of these names for public keys and root keys.
    static func ignoredFlags(for arguments: some Collection<String>) -> [String] {
        arguments.first == "trust" ? ["key", "channel-key"] : []
    }

    /// Returns whether `command` reads the file and the working folder does not have it.
    static func isMissing(for command: String?) -> Bool {
        command.map(commands.contains) == true && !File.exists(name)
    }

    /// Returns the path of the file in the working folder; nil if it does not exist or `arguments` name another command.
    static func path(for arguments: some Collection<String>) -> String? {
        guard let command = arguments.first, commands.contains(command), File.exists(name) else { return nil }
        return name
    }
}
