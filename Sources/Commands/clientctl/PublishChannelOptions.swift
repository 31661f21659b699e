import ArchiveSource
import ArgumentParser
import BundleValues
import BundlePublish

/// The channel that a release is published to.
struct PublishChannelOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Also add it to this channel: FEED/channels/NAME.json.", valueName: "name"))
    var channel: String?

    @Option(
        help: ArgumentHelp(
            "The share of the channel's devices that may have it, such as 2.5%; all by default.", valueName: "percent"))
    var rollout: String?

    @Flag(help: "With --channel, devices show it as soon as they have it.")
    var urgent = false

    @Option(
        help: ArgumentHelp(
            "Private key (PEM) that signs the channel, by default those of the release; repeat it where several must.",
            valueName: "file"), completion: .file())
    var channelKey: [String] = []

    @Option(help: ArgumentHelp("Command that signs the channel, as --sign-command.", valueName: "command"))
    var channelSignCommand: [String] = []

    @Option(help: ArgumentHelp("Public key (PEM) of --channel-sign-command.", valueName: "file"), completion: .file())
    var channelPublic: [String] = []

    @Flag(help: "Create the channel.")
    var create = false

    @Option(
        help: ArgumentHelp(
            "With --create, the sequence to begin with; 1 by default, more where the channel's document was lost.",
            valueName: "n"))
    var sequence: String?

    @Option(
        help: ArgumentHelp(
            "What devices trust. With --channel also what vouches for its present document, by default the keys that sign it.",
            valueName: "path"), completion: .file())
    var trust: String?

    @Option(help: ArgumentHelp("How long the channel's new document counts; 30d by default.", valueName: "duration"))
    var expiresIn: String?

    @Option(
        help: ArgumentHelp("Refuse unless the channel's document has this sequence now; 0 for none.", valueName: "n"))
    var expectSequence: String?

    @Flag(help: "The clock is right, though it is long after the channel's present document expired.")
    var clockChecked = false

    @OptionGroup var state: PublisherStateOptions

    /// The folder that stores what is signed, if a channel is.
    func stateFolders(_ settings: Settings) throws -> [String] {
        guard try settings.optional("channel", channel) != nil else { return [] }
        return try state.folder(settings).map { [$0.path] } ?? []
    }

    /// Where the channel's private keys are.
    func keyFiles(_ settings: Settings) throws -> [String] { try settings.list("channel-key", channelKey) }

    /// What devices trust, as far as it tells whose releases: plain keys may be those of the channel alone.
    func anchor(_ settings: Settings) throws -> TrustAnchor? {
        guard let anchor = try settings.optional("trust", trust).map(TrustAnchor.read) else { return nil }
        if case .keys = anchor, try settings.optional("channel", channel) != nil { return nil }
        return anchor
    }

    /// nil without a channel, which the other flags are for.
    func plan(
        release: [Signer], isDryRun: Bool, _ passphrase: PassphraseOptions, _ settings: Settings
    ) throws -> ChannelPlan? {
        guard let name = try settings.optional("channel", channel) else {
            let isAboutChannel = try ["rollout", "expect-sequence", "sequence"].contains { name in
                try settings.optional(name, nil) != nil
            }
            if try isAboutChannel || settings.isOn("create", create) || settings.isOn("urgent", urgent)
                || rollout != nil || !channelKey.isEmpty
                || !channelSignCommand.isEmpty || !channelPublic.isEmpty || expiresIn != nil || expectSequence != nil
                || sequence != nil || settings.isOn("feed-was-restored", state.feedWasRestored)
            {
                throw ValidationError("Missing --channel: flags of a channel's document were given without it.")
            }
            return nil
        }
        let own = try Signers.read(
            Signers.Flags(key: "channel-key", command: "channel-sign-command", publicKey: "channel-public"),
            keys: channelKey, commands: channelSignCommand, publicKeys: channelPublic, passphrase, settings)
        var options = ChannelTerms(signers: own.isEmpty ? release : own)
        options.trust = try settings.optional("trust", trust).map(TrustAnchor.read)
        try ChannelEditOptions.fill(&options, expiresIn, expectSequence, settings)
        options.firstSequence = try ChannelEditOptions.firstSequence(create, sequence, settings)
        options.isClockChecked = try settings.isOn("clock-checked", clockChecked)
        options.isDryRun = isDryRun
        try state.fill(&options, settings)
        let rollout = try settings.optional("rollout", rollout).map {
            try ChannelEditOptions.share("--rollout", $0).permille
        }
        var plan = ChannelPlan(name, rollout: rollout, options)
        plan.isUrgent = try settings.isOn("urgent", urgent)
        return plan
    }
}
