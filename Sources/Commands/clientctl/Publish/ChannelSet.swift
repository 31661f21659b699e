import BundleFormats
import ArgumentParser
import BundleCore
import BundleValues
import BundlePublish

struct ChannelSet: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Set how often devices check, how they download, and how long a busy page delays another client.",
        discussion: """
            --poll takes effect at the next check. The --check-interval of a device wins.
            The jitter also spreads the checks that a push notification causes.

            A page calls busy(true) while a user pays or scans. Until it calls busy(false)
            or the time of --busy ends, `serve` does not switch to another client, not even
            to an urgent release. For a recalled client the limit is one minute.

            The other flags limit the downloads of devices. A device also obeys its own
            settings; the stricter one applies. An urgent release ignores --max-rate and
            --download-window.

            Examples:
              clientctl channel set --poll 5m --jitter 1m --feed feed --channel stable \\
                --channel-key channel.key.pem
              clientctl channel set --poll default --busy 2m --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl channel set --download-window 22:00-05:00 --max-rate 256kB \\
                --metered-budget 2MB --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @Option(
        help: ArgumentHelp(
            "(required, or --busy or another setting) Time between two checks of a device, 10s to 7d; default leaves it to each device.",
            valueName: "duration"))
    var poll: String?

    @Option(
        help: ArgumentHelp(
            "With --poll, the maximum random delay added to each check. (default: 0s)", valueName: "duration"))
    var jitter: String?

    @Option(
        help: ArgumentHelp(
            "Time for which a busy page delays another client, 0s to 1h; default restores 10m.", valueName: "duration"))
    var busy: String?

    @Option(
        help: ArgumentHelp(
            "Maximum rate of all downloads of a device together, in bytes per second, such as 256kB; default removes it.",
            valueName: "size"))
    var maxRate: String?

    @Option(
        help: ArgumentHelp(
            "Hours for downloads of releases, in the time zone of each device, such as 22:00-05:00; default removes them.",
            valueName: "window,..."))
    var downloadWindow: String?

    @Option(
        help: ArgumentHelp(
            "Maximum number of bytes of a device on metered networks in a calendar month; default removes it.",
            valueName: "size"))
    var meteredBudget: String?

    @Option(
        help: ArgumentHelp(
            "Use of deltas: prefer, only (archives wait) or never; default is prefer.", valueName: "word"),
        completion: .list(DeltaUse.words.map(\.rawValue) + ["default"]))
    var deltas: String?

    @Option(
        help: ArgumentHelp(
            "URL of a copy of the feed, from which devices download archives and deltas first. Repeatable; default removes all.",
            valueName: "url"))
    var mirror: [String] = []

    @OptionGroup var proposal: ProposalOptions
    @OptionGroup var edit: ChannelEditOptions

    func change() throws -> ChannelChange {
        let changes = try [pollChange(), busyChange(), networkChange()].compactMap(\.self)
        if changes.isEmpty {
            throw MissingFlag(flags: [
                "poll", "busy", "max-rate", "download-window", "metered-budget", "deltas", "mirror",
            ])
        }
        return .all(changes)
    }

    private func pollChange() throws -> ChannelChange? {
        guard let text = poll else {
            if jitter != nil { throw ValidationError("--jitter needs --poll, the time between two checks.") }
            return nil
        }
        if text == Self.unset {
            if jitter != nil { throw ValidationError("--poll default does not take --jitter.") }
            return .poll(nil)
        }
        let interval = try seconds("poll", text: text)
        guard PollPace.allowed.contains(.seconds(interval)) else {
            throw ValidationError("--poll takes 10s to 7d. Devices ignore any other interval.")
        }
        let delay = try jitter.map { try seconds("jitter", text: $0) } ?? 0
        if delay > interval { throw ValidationError("--jitter takes at most the time of --poll.") }
        return .poll(ChannelDocument.Poll(interval: interval, jitter: delay))
    }

    private func busyChange() throws -> ChannelChange? {
        guard let text = busy else { return nil }
        if text == Self.unset { return .busyLimit(nil) }
        let limit = try seconds("busy", text: text)
        guard (0...ChannelDocument.longestBusyLimit).contains(limit) else {
            throw ValidationError("--busy takes 0s to 1h.")
        }
        return .busyLimit(limit)
    }

    private func networkChange() throws -> ChannelChange? {
        func value<Content>(_ text: String?, by parse: (String) throws -> Content) throws
            -> NetworkChange.Value<Content>
        {
            guard let text else { return .unchanged }
            return text == Self.unset ? .removed : .set(try parse(text))
        }
        var change = NetworkChange()
        change.rate = try value(maxRate) { try FetchPolicy.rate($0) }
        change.hours = try value(downloadWindow) { text in
            try FlagValue.parsed(text, of: "download-window") { try ActivationWindows(parsing: $0) }
        }
        change.meteredBudget = try value(meteredBudget) { text in try FlagValue.bytes(text, of: "metered-budget") }
        change.deltas = try value(deltas, by: FetchPolicy.use)
        if !mirror.isEmpty {
            change.mirrors = mirror == [Self.unset] ? .removed : .set(try FetchPolicy.mirrors(mirror))
        }
        return change == NetworkChange() ? nil : .network(change)
    }

    /// The value that removes a setting.
    private static let unset = "default"

    private func seconds(_ name: String, text: String) throws -> Int {
        let parts = try FlagValue.duration(text, of: name).components
        if parts.attoseconds != 0 { throw ValidationError("--\(name) takes whole seconds, not \(text).") }
        return Int(clamping: parts.seconds)
    }
}

struct ChannelRenew: ProposableCommand {
    static let configuration = CommandConfiguration(
        commandName: "renew",
        abstract: "Sign a channel file again, with a later expiry.",
        discussion: """
            Devices install nothing from an expired channel file. Sign a channel without
            changes again regularly, such as from cron.

            Examples:
              clientctl channel renew --if-expires-within 7d --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl channel renew --feed feed --channel stable \\
                --channel-key new.key.pem --trust old.pub.pem
            """)

    @Option(
        help: ArgumentHelp("Do nothing unless the file expires within this time, such as 7d.", valueName: "duration"))
    var ifExpiresWithin: String?

    @OptionGroup var proposal: ProposalOptions
    @OptionGroup var edit: ChannelEditOptions

    func work() throws -> ChannelWork {
        let time = try PublishTime.duration(ifExpiresWithin, of: "if-expires-within")
        return ChannelWork { editor, channel in
            if let time { return try editor.renew(channel, ifExpiresWithin: time) }
            return try editor.apply(.renew, to: channel)
        }
    }
}

struct ChannelRestore: ProposableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Restore a channel file that was lost or rolled back, from its copies.",
        discussion: """
            Devices reject a channel file with a lower sequence than one they have seen.
            The restored file gets a sequence above every copy in FEED/channels/NAME, so
            devices accept it. It offers the releases of the newest copy, or of --copy.
            Releases that were recalled since then stay recalled.

            Examples:
              clientctl channel restore --feed feed --channel stable \\
                --channel-key channel.key.pem
              clientctl channel restore --copy 17 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @Option(
        help: ArgumentHelp("Offer the releases of the copy with this sequence. (default: the newest)", valueName: "n"))
    var copy: String?

    @OptionGroup var proposal: ProposalOptions
    @OptionGroup var edit: ChannelEditOptions

    func work() throws -> ChannelWork {
        let sequence = try FlagValue.integer(copy, of: "copy", atLeast: 1)
        return ChannelWork { try $0.restore($1, to: sequence) }
    }
}
