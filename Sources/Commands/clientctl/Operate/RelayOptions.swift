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

    @OptionGroup var way: WayOptions

    /// Returns the folder of the cache, which is created, and its size; nil without `--cache`.
    func cache(_ settings: Settings) throws -> (folder: Directory, bytes: Int)? {
        let size = try settings.optional("cache-size", cacheSize).map { text in
            try settings.parsed("cache-size", text) { try ByteCount(parsing: $0).bytes }
        }
        guard let path = try settings.optional("cache", cache) else {
            if cacheSize != nil { throw ValidationError("--cache-size needs the folder: add --cache.") }
            return nil
        }
        try Directory.createAll(path)
        return (try Directory.open(path), size ?? 2_000_000_000)
    }

    /// Returns the feed at the address `text`. Throws `ValidationError` if the address or a channel is invalid.
    func upstream(at text: String, _ settings: Settings) throws -> Upstream {
        let channels = try settings.list("channel", channel)
        if let other = channels.first(where: { !ChannelFileName.isName($0) }) {
            throw ValidationError(
                "--channel takes the name of a channel with --upstream, such as stable, not \(UntrustedName.display(other))."
            )
        }
        let url = try settings.parsed("upstream", text) { try FetchURL(parsing: $0) }
        let fetcher = try Wiring.fetcher(self, for: url, settings)
        return try settings.parsed("upstream", text) { _ in try Upstream(url, channels: channels, fetcher: fetcher) }
    }

    /// Throws `ValidationError` for a flag on the command line that a host with a folder ignores. In a configuration file such a flag is
    /// accepted, because several commands can share the file.
    func refuseFlags() throws {
        let given = [
            ("channel", !channel.isEmpty), ("upstream-token-file", upstreamTokenFile != nil), ("cache", cache != nil),
            ("cache-size", cacheSize != nil),
            ("ca-file", way.caFile != nil),
            ("proxy", way.proxy != nil),
        ]
        guard let flag = given.first(where: \.1)?.0 else { return }
        throw ValidationError(
            "--\(flag) is for --upstream. A host with a folder announces all its channels and fetches nothing.")
    }
}
