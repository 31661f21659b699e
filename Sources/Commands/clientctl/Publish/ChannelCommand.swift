import ArgumentParser

struct ChannelCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "channel",
        abstract: "Show, renew, restore, prune and delete channels.",
        discussion: """
            A channel is the file FEED/channels/NAME.json, which lists the releases that
            devices can run. `publish --channel` and `release` change its releases.

            Examples:
              clientctl channel list --feed feed
              clientctl channel renew --if-expires-within 7d --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl channel set --poll 5m --jitter 1m --feed feed --channel stable \\
                --channel-key channel.key.pem
            """,
        subcommands: [
            ChannelList.self, ChannelLog.self, ChannelSet.self, ChannelRenew.self, ChannelRestore.self,
            ChannelPrune.self, ChannelDelete.self,
        ])
}
