import ArchiveSource
import ArgumentParser
import BundleValues
import BundlePublish

struct PublishChannelOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Also add the release to this channel: FEED/channels/NAME.json.", valueName: "name"))
    var channel: String?

    @Option(
        help: ArgumentHelp(
            "Percentage of the channel's devices that can install it, such as 2.5%. (default: 100%)",
            valueName: "percent"))
    var rollout: String?

    @Flag(help: "With --channel, devices show the release as soon as they have it.")
    var urgent = false

    @Option(
        help: ArgumentHelp(
            "Private key (PEM) that signs the channel. Repeat it if several keys must sign. (default: the keys of the release)",
            valueName: "file"), completion: .file())
    var channelKey: [String] = []

    @Option(help: ArgumentHelp("Command that signs the channel, as --sign-command does.", valueName: "command"))
    var channelSignCommand: [String] = []

    @Option(help: ArgumentHelp("Public key (PEM) of --channel-sign-command.", valueName: "file"), completion: .file())
    var channelSignPublicKey: [String] = []

    @Flag(help: "Create the channel.")
    var create = false

    @Option(
        help: ArgumentHelp(
            "With --create, the first sequence; use a higher one if the channel file was lost. (default: 1)",
            valueName: "n"))
    var sequence: String?

    @Option(
        help: ArgumentHelp(
            "The keys that devices trust. With --channel, they also verify its current file. (default: the keys that sign it)",
            valueName: "path"), completion: .file())
    var trust: String?

    @Option(help: ArgumentHelp("How long the new channel file is valid. (default: 30d)", valueName: "duration"))
    var expiresIn: String?

    @Option(
        help: ArgumentHelp(
            "Fail unless the current channel file has this sequence; 0 if it does not exist.", valueName: "n"))
    var expectSequence: String?

    @Flag(help: "Sign even if the channel expired long ago. Check the clock of this machine first.")
    var acceptClock = false

    @OptionGroup var state: PublisherStateOptions

    /// Returns the folder that stores signed channel files; none without a channel.
    func stateFolders(_ settings: Settings) throws -> [String] {
        guard try settings.optional("channel", channel) != nil else { return [] }
        return try state.folder(settings).map { [$0.path] } ?? []
    }

    func keyFiles(_ settings: Settings) throws -> [String] { try settings.list("channel-key", channelKey) }

    /// Returns the anchor that verifies releases; nil for plain keys with `--channel`, which can be the keys of the channel only.
    func anchor(_ settings: Settings) throws -> TrustAnchor? {
        guard let anchor = try settings.optional("trust", trust).map(TrustAnchor.read) else { return nil }
        if case .keys = anchor, try settings.optional("channel", channel) != nil { return nil }
        return anchor
    }

    /// Returns the change of the channel; nil without `--channel`. Throws if flags of a channel are given without it.
    func plan(
        release: [Signer], isDryRun: Bool, _ passphrase: PassphraseOptions, _ settings: Settings
    ) throws -> ChannelPlan? {
        guard let name = try settings.optional("channel", channel) else {
            let isAboutChannel = try ["rollout", "expect-sequence", "sequence"].contains { name in
                try settings.optional(name, nil) != nil
            }
            if try isAboutChannel || settings.isOn("create", create) || settings.isOn("urgent", urgent)
                || rollout != nil || !channelKey.isEmpty
                || !channelSignCommand.isEmpty || !channelSignPublicKey.isEmpty || expiresIn != nil
                || expectSequence != nil
                || sequence != nil || settings.isOn("feed-was-restored", state.feedWasRestored)
            {
                throw ValidationError(
                    "Missing --channel: some flags only apply to a channel. Give it, or leave them out.")
            }
            return nil
        }
        let own = try Signers.read(
            Signers.Flags(key: "channel-key", command: "channel-sign-command", publicKey: "channel-sign-public-key"),
            keys: channelKey, commands: channelSignCommand, publicKeys: channelSignPublicKey, passphrase, settings)
        var options = ChannelTerms(signers: own.isEmpty ? release : own)
        options.trust = try settings.optional("trust", trust).map(TrustAnchor.read)
        try ChannelEditOptions.fill(&options, expiresIn, expectSequence, settings)
        options.firstSequence = try ChannelEditOptions.firstSequence(create, sequence, settings)
        options.isClockAccepted = try settings.isOn("accept-clock", acceptClock)
        options.isDryRun = isDryRun
        try state.fill(&options, settings)
        let rollout = try settings.optional("rollout", rollout).map {
            try ChannelEditOptions.share("--rollout", $0).permille
        }
        var plan = ChannelPlan(name, rollout: rollout, terms: options)
        plan.isUrgent = try settings.isOn("urgent", urgent)
        return plan
    }
}
