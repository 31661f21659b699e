import BundleFormats
import ArgumentParser
import BundlePublish
import BundleSigning
import BundleValues

/// The flags of commands that change a channel file.
struct ChannelEditOptions: ParsableArguments {
    @Option(help: .feed, completion: .directory) var feed: String?

    @Option(help: .channel, completion: .channels) var channel: String?

    @Option(
        help: ArgumentHelp(
            "(required, or --sign-command) Private key (PEM) that signs the channel. Repeat it if several keys must sign.",
            valueName: "file"),
        completion: .file()
    )
    var channelKey: [String] = []

    @Option(
        help: ArgumentHelp(
            "Command that signs the channel instead of a key file: message on stdin, raw signature on stdout.",
            valueName: "command"))
    var signCommand: [String] = []

    @Option(help: ArgumentHelp("Public key (PEM) of --sign-command.", valueName: "file"), completion: .file())
    var signPublicKey: [String] = []

    @OptionGroup(title: "Signing") var passphrase: PassphraseOptions

    @Option(
        help: ArgumentHelp(
            "PEM key, folder of *.pem or trust root that verifies the current channel file. (default: the signing keys)",
            valueName: "path"), completion: .file())
    var trust: String?

    @Flag(help: "Show what would change, and write nothing.")
    var dryRun = false

    @OptionGroup(title: "Channel file") var limits: ChannelTermsOptions
    @OptionGroup(title: "Bucket") var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup(title: "After publishing") var after: AfterOptions
    @OptionGroup var common: CommonOptions

    func place() throws -> (feed: any FeedLocation, channel: String) {
        (try Wiring.location(feed, bucket: bucket), try FlagValue.required(channel, of: "channel"))
    }

    func options() throws -> ChannelTerms {
        let signers = try Signers.read(
            Signers.Flags(key: "channel-key", command: "sign-command", publicKey: "sign-public-key"), keys: channelKey,
            commands: signCommand, publicKeys: signPublicKey, passphrase: passphrase)
        if signers.isEmpty {
            throw MissingFlag(flags: ["channel-key", "sign-command"])
        }
        return try terms(signers)
    }

    /// Returns the terms of a change that `signers` sign, such as the keys of a guard.
    func terms(_ signers: [Signer]) throws -> ChannelTerms {
        var terms = try limits.terms(signers: signers, trust: trust, isDryRun: dryRun)
        terms.wait = try waiting.feedWait()
        return terms
    }

    /// Returns ascending percentages in thousandths, such as those of `1%,5%,25%,100%`.
    static func shares(_ name: String, text: String) throws -> [Int] {
        let shares = try text.split(separator: ",", omittingEmptySubsequences: false).map {
            try share(name, text: String($0)).permille
        }
        guard zip(shares, shares.dropFirst()).allSatisfy({ $0 < $1 }), shares.first != 0 else {
            throw ValidationError("\(name) takes ascending percentages, such as 1%,5%,25%,100%.")
        }
        return shares
    }

    static func share(_ name: String, text: String) throws -> RolloutPercentage {
        guard let share = RolloutPercentage(parsing: text) else {
            throw ValidationError(
                "\(name) takes a percentage from 0% to 100%, such as 25% or 2.5%, not "
                    + "\(UntrustedName.display(text)).")
        }
        return share
    }
}
