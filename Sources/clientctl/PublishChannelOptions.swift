import ArchiveChannel
import ArgumentParser
import BundleCore
import BundlePublish

/// The channel that a release is published to.
struct PublishChannelOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Also add it to this channel: FEED/channels/NAME.json.", valueName: "name"))
    var channel: String?

    @Option(
        help: ArgumentHelp(
            "How many devices of the channel may have it, in thousandths; all by default.", valueName: "permille"))
    var rollout: String?

    @Option(
        help: ArgumentHelp(
            "Private key (PEM) that signs the channel, by default those of the release; repeat it where several must.",
            valueName: "file"))
    var channelKey: [String] = []

    @Option(help: ArgumentHelp("Command that signs the channel, as --sign-command.", valueName: "command"))
    var channelSignCommand: [String] = []

    @Option(help: ArgumentHelp("Public key (PEM) of --channel-sign-command.", valueName: "file"))
    var channelPublic: [String] = []

    @Option(
        help: ArgumentHelp(
            "What vouches for the present channel document, by default the keys that sign it.", valueName: "path"))
    var trust: String?

    @Option(help: ArgumentHelp("How long the channel's new document counts; 30d by default.", valueName: "duration"))
    var expiresIn: String?

    @Option(
        help: ArgumentHelp("Refuse unless the channel's document has this sequence now; 0 for none.", valueName: "n"))
    var expectSequence: String?

    /// nil without a channel, which the other flags are for.
    func plan(
        release: [Signer], issuedAt: Timestamp, isDryRun: Bool, _ passphrase: PassphraseOptions, _ settings: Settings
    ) throws -> ChannelPlan? {
        guard let name = try settings.optional("channel", channel) else {
            if rollout != nil || !channelKey.isEmpty || !channelSignCommand.isEmpty || expiresIn != nil
                || expectSequence != nil
            {
                throw ValidationError("Missing --channel: flags of a channel's document were given without it.")
            }
            return nil
        }
        let own = try Signers.read(
            Signers.Flags(key: "channel-key", command: "channel-sign-command", publicKey: "channel-public"),
            keys: channelKey, commands: channelSignCommand, publicKeys: channelPublic, passphrase, settings)
        var options = ChannelTerms(signers: own.isEmpty ? release : own, issuedAt: issuedAt)
        options.trust = try settings.optional("trust", trust).map(TrustAnchor.read)
        try ChannelEditOptions.fill(&options, expiresIn, expectSequence, settings)
        options.isDryRun = isDryRun
        let rollout = try settings.optional("rollout", rollout).map {
            try ChannelEditOptions.permille("--rollout", $0)
        }
        return ChannelPlan(name, rollout: rollout, options)
    }
}
