import BundleFormats
import ArgumentParser
import BundleValues
import BundlePublish

struct PublishChannelOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("Also add the release to this channel: FEED/channels/NAME.json.", valueName: "name"),
        completion: .channels)
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

    @OptionGroup var new: NewChannelOptions

    @OptionGroup var proposal: ProposalOptions

    @Option(
        help: ArgumentHelp(
            "The keys that devices trust. With --channel, they also verify its current file. (default: the keys that sign it)",
            valueName: "path"), completion: .file())
    var trust: String?

    @OptionGroup var limits: ChannelTermsOptions

    /// The folder that stores signed channel files; none without a channel.
    var stateFolders: [String] { channel == nil ? [] : limits.stateFolder.map { [$0.path] } ?? [] }

    /// Returns the anchor that verifies releases; nil for plain keys with `--channel`, which can be the keys of the channel only.
    func anchor() throws -> TrustAnchor? {
        guard let anchor = try trust.map(TrustAnchor.read) else { return nil }
        if case .keys = anchor, channel != nil { return nil }
        return anchor
    }

    /// The first flag that is set and only applies to a channel. The project file sets some of them for all commands.
    private var flagOfChannel: String? {
        let values = [
            ("rollout", rollout != nil), ("urgent", urgent), ("create", new.create), ("propose", proposal.propose),
            ("sequence", new.sequence != nil),
            ("expect-sequence", limits.expectSequence != nil), ("feed-was-restored", limits.feedWasRestored),
        ]
        let typed = ["channel-key", "channel-sign-command", "channel-sign-public-key", "expires-in", "accept-clock"]
        return values.first { $0.1 }?.0 ?? typed.first(where: CommandLineFlags.contain)
    }

    /// Throws for the name `none`, which other flags use for nothing, and if flags of a channel are given without `--channel`.
    func requireChannel() throws {
        if channel == "none" {
            throw ValidationError(
                "A channel cannot be named none. For a release without a channel, leave --channel out.")
        }
        guard channel == nil, let flag = flagOfChannel else { return }
        throw ValidationError("--\(flag) needs --channel: give it, or leave --\(flag) out.")
    }

    /// Returns the change of the channel; nil without `--channel`.
    func plan(release: [Signer], isDryRun: Bool, _ passphrase: PassphraseOptions) throws -> ChannelPlan? {
        guard let name = channel else { return nil }
        let own = try Signers.read(
            Signers.Flags(key: "channel-key", command: "channel-sign-command", publicKey: "channel-sign-public-key"),
            keys: channelKey, commands: channelSignCommand, publicKeys: channelSignPublicKey, passphrase: passphrase)
        var terms = try limits.terms(signers: own.isEmpty ? release : own, trust: trust, isDryRun: isDryRun)
        terms.firstSequence = try new.firstSequence()
        terms.proposes = proposal.propose
        let rollout = try rollout.map { try ChannelEditOptions.share("--rollout", text: $0).permille }
        var plan = ChannelPlan(name, rollout: rollout, terms: terms)
        plan.isUrgent = urgent
        return plan
    }
}
