import ArgumentParser
import BundleDisk
import BundleFleet
import BundleValues

/// The flags of a relay.
struct RelayOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Instead of a folder, the address of a feed on another server. Announce its changes, and serve no files without --cache.",
            valueName: "url"))
    var upstream: String?

    @Option(
        help: ArgumentHelp(
            "With --upstream, a channel to watch. Repeatable (default: the channels that devices request, at most 64).",
            valueName: "name"))
    var channel: [String] = []

    @Option(
        help: ArgumentHelp("With --upstream, file with the bearer token for that server.", valueName: "file"),
        completion: .file())
    var upstreamTokenFile: String?

    @Option(
        help: ArgumentHelp(
            "With --upstream, folder for files of releases. Serve them to devices, and fetch each one once.",
            valueName: "dir"), completion: .directory)
    var cache: String?

    @Option(
        help: ArgumentHelp("With --cache, the maximum size of the folder (default: 2GB).", valueName: "size"))
    var cacheSize: String?

    @OptionGroup(title: "Network") var way: WayOptions

    /// Returns the folder of the cache, which is created, and its size; nil without `--cache`.
    func openCache() throws -> (folder: Directory, bytes: Int)? {
        let size = try FlagValue.bytes(cacheSize, of: "cache-size")
        guard let path = cache else {
            if CommandLineFlags.contain("cache-size") {
                throw ValidationError("--cache-size needs the folder: add --cache.")
            }
            return nil
        }
        try Directory.createAll(path)
        return (try Directory.open(path), size ?? 2_000_000_000)
    }

    /// Returns the feed at the address `text`. Throws `ValidationError` if the address or a channel is invalid.
    func upstream(at text: String) throws -> Upstream {
        if let other = channel.first(where: { !ChannelFileName.isName($0) }) {
            throw ValidationError(
                "--channel takes the name of a channel with --upstream, such as stable, not \(UntrustedName.display(other))."
            )
        }
        let url = try FlagValue.url(text, of: "upstream")
        let fetcher = try Wiring.fetcher(self, for: url)
        return try FlagValue.parsed(text, of: "upstream") { _ in
            try Upstream(url, channels: channel, fetcher: fetcher)
        }
    }

    /// Throws `ValidationError` for a flag on the command line that a host with a folder ignores. In a configuration file such a flag is
    /// accepted, because several commands can share the file.
    func refuseFlags() throws {
        let names = ["channel", "upstream-token-file", "cache", "cache-size", "ca-file", "proxy"]
        guard let flag = names.first(where: CommandLineFlags.contain) else { return }
        throw ValidationError(
            "--\(flag) is for --upstream. A host with a folder announces all its channels and fetches nothing.")
    }
}
