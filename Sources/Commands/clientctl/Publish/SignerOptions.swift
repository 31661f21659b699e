import ArchiveSource
import ArgumentParser
import BundleValues
import BundlePublish
import BundleSigning
import CLibrary

/// Reads signers from key files and signing commands. Each command has the public key at the same position.
enum Signers {
    struct Flags {
        let key: String
        let command: String
        let publicKey: String
    }

    static func read(
        _ flags: Flags, keys: [String], commands: [String], publicKeys: [String], _ passphrase: PassphraseOptions,
        _ settings: Settings
    ) throws -> [Signer] {
        // If the command line names a key, a key in the configuration must not sign, too.
        let isGiven = !keys.isEmpty || !commands.isEmpty
        let keys = isGiven ? keys : try settings.list(flags.key, [])
        let commands = isGiven ? commands : try settings.list(flags.command, [])
        let publicKeys = commands.isEmpty && isGiven ? publicKeys : try settings.list(flags.publicKey, publicKeys)
        guard commands.count == publicKeys.count else {
            throw ValidationError(
                "Each --\(flags.command) needs a --\(flags.publicKey), the PEM public key that verifies its signatures: "
                    + "\(commands.count) and \(publicKeys.count) were given.")
        }
        let signers =
            try keys.map { path in
                try KeyFile.signer(at: path) { try passphrase.require(settings, for: path) }
            } + zip(commands, publicKeys).map { Signer(SigningCommand($0), publicKey: try KeyFile.publicKey(at: $1)) }
        if Set(signers.map(\.publicKey.id)).count != signers.count {
            throw ValidationError(
                "The same key is given twice, but only one signature of a key is valid. Give each key once.")
        }
        return signers
    }
}

enum PublishTime {
    /// Returns the time of a release: `SOURCE_DATE_EPOCH`, or now if it is not set or empty.
    ///
    /// Files that expire always use the clock. With the time of a commit, they would expire early and a ramp would begin in the past.
    static func created() throws -> Timestamp {
        guard let text = getenv("SOURCE_DATE_EPOCH").map({ String(cString: $0) }), !text.isEmpty else {
            return Timestamp(clamping: CLibrary.time(nil))
        }
        guard let seconds = Int(text), let time = try? Timestamp(secondsSinceEpoch: seconds) else {
            throw UpdateFailure(
                .configInvalid, subject: "SOURCE_DATE_EPOCH",
                "SOURCE_DATE_EPOCH is not a number of seconds: \(UntrustedName.display(text)).")
        }
        return time
    }

    /// Returns the duration of flag `name`, at least one second; nil if it is not given.
    static func duration(_ name: String, _ given: String?, _ settings: Settings) throws -> Duration? {
        guard let text = try settings.optional(name, given) else { return nil }
        let duration = try settings.parsed(name, text) { try DurationText(parsing: $0).duration }
        guard duration >= .seconds(1) else {
            throw ValidationError(
                "--\(name) takes at least one second, such as 30d, not \(UntrustedName.display(text)).")
        }
        return duration
    }
}

/// The time for which a command waits for another process that changes the feed.
struct WaitOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "How long to wait for another clientctl that changes the feed. (default: 30s)", valueName: "duration"))
    var wait: String?

    func wait(_ settings: Settings) throws -> FeedWait {
        let limit = try settings.optional("wait", wait).map { text in
            try settings.parsed("wait", text) { try DurationText(parsing: $0).duration }
        }
        return FeedWait(limit ?? FeedWait.standard) { Output.say($0) }
    }
}

/// The flags of commands that change a channel file.
struct ChannelEditOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("(required) The feed: a folder or s3://bucket/prefix.", valueName: "place"),
        completion: .directory)
    var feed: String?

    @Option(help: ArgumentHelp("(required) The channel.", valueName: "name"))
    var channel: String?

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

    @OptionGroup var passphrase: PassphraseOptions

    @Option(
        help: ArgumentHelp(
            "PEM key, folder of *.pem or trust root that verifies the current channel file. (default: the signing keys)",
            valueName: "path"), completion: .file())
    var trust: String?

    @Option(help: ArgumentHelp("How long the new channel file is valid. (default: 30d)", valueName: "duration"))
    var expiresIn: String?

    @Option(
        help: ArgumentHelp(
            "Fail unless the current channel file has this sequence; 0 if it does not exist.", valueName: "n"))
    var expectSequence: String?

    @Flag(help: "Show what would change, and write nothing.")
    var dryRun = false

    @Flag(help: "Sign even if the channel expired long ago. Check the clock of this machine first.")
    var acceptClock = false

    @OptionGroup var state: PublisherStateOptions
    @OptionGroup var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var after: AfterOptions
    @OptionGroup var common: CommonOptions

    func place(_ settings: Settings) throws -> (feed: any FeedLocation, channel: String) {
        (try Wiring.location(feed, bucket, settings), try settings.required("channel", channel))
    }

    func options(_ settings: Settings) throws -> ChannelTerms {
        let signers = try Signers.read(
            Signers.Flags(key: "channel-key", command: "sign-command", publicKey: "sign-public-key"), keys: channelKey,
            commands: signCommand, publicKeys: signPublicKey, passphrase, settings)
        if signers.isEmpty {
            throw MissingFlag(flags: ["channel-key", "sign-command"])
        }
        return try terms(signers, settings)
    }

    /// Returns the terms of a change that `signers` sign, such as the keys of a guard.
    func terms(_ signers: [Signer], _ settings: Settings) throws -> ChannelTerms {
        var options = ChannelTerms(signers: signers)
        options.trust = try settings.optional("trust", trust).map(TrustAnchor.read)
        try Self.fill(&options, expiresIn, expectSequence, settings)
        options.isDryRun = try settings.isOn("dry-run", dryRun)
        options.isClockAccepted = try settings.isOn("accept-clock", acceptClock)
        options.wait = try waiting.wait(settings)
        try state.fill(&options, settings)
        return options
    }

    static func fill(
        _ options: inout ChannelTerms, _ expiresIn: String?, _ expectSequence: String?, _ settings: Settings
    ) throws {
        if let duration = try PublishTime.duration("expires-in", expiresIn, settings) { options.lifetime = duration }
        options.expectedSequence = try settings.optional("expect-sequence", expectSequence).map {
            try settings.integer("expect-sequence", $0, atLeast: 0)
        }
    }

    /// Returns the first sequence of a new channel; nil without `--create`.
    static func firstSequence(_ create: Bool, _ sequence: String?, _ settings: Settings) throws -> Int? {
        let number = try settings.optional("sequence", sequence).map {
            try settings.integer("sequence", $0, atLeast: 1)
        }
        if try settings.isOn("create", create) { return number ?? 1 }
        if number != nil {
            throw ValidationError("--sequence sets the first sequence of a new channel: give --create, too.")
        }
        return nil
    }

    /// Returns ascending percentages in thousandths, such as those of `1%,5%,25%,100%`.
    static func shares(_ name: String, _ text: String) throws -> [Int] {
        let shares = try text.split(separator: ",", omittingEmptySubsequences: false).map {
            try share(name, String($0)).permille
        }
        guard zip(shares, shares.dropFirst()).allSatisfy({ $0 < $1 }), shares.first != 0 else {
            throw ValidationError("\(name) takes ascending percentages, such as 1%,5%,25%,100%.")
        }
        return shares
    }

    static func share(_ name: String, _ text: String) throws -> RolloutPercentage {
        guard let share = RolloutPercentage(parsing: text) else {
            throw ValidationError(
                "\(name) takes a percentage from 0% to 100%, such as 25% or 2.5%, not "
                    + "\(UntrustedName.display(text)).")
        }
        return share
    }
}

enum ChannelOutput {
    static func object(_ report: ChannelReport) -> JSONObject {
        var object: JSONObject = [
            "outcome": .string(report.outcome.rawValue), "channel": .string(report.document.channel),
            "sequence": .integer(report.document.sequence),
            "previousSequence": report.previousSequence.map(JSONValue.integer) ?? .null,
            "issuedAt": .string(report.document.issuedAt.description),
            "expires": .string(report.document.expires.description),
            "changes": .array(report.changes.map(JSONValue.string)), "manifest": manifest(report.newest),
            "warnings": .array(report.warnings.map(JSONValue.string)),
        ]
        object["writes"] = report.writes.map(WriteOutput.value)
        return object
    }

    private static func manifest(_ change: NewestChange) -> JSONValue {
        let (isChanged, offered, isRemoved): (Bool, SemanticVersion?, Bool) =
            switch change {
            case .untouched: (false, nil, false)
            case .offers(let version): (true, version, false)
            case .removed: (true, nil, true)
            }
        return .object([
            "changed": .bool(isChanged), "offers": .string(orNull: offered?.description), "removed": .bool(isRemoved),
        ])
    }

    private static func line(_ change: NewestChange, isDryRun: Bool) -> [String] {
        switch change {
        case .untouched: []
        case .offers(let version): ["  manifest.json \(isDryRun ? "would offer" : "offers") \(version) from now on"]
        case .removed(let version):
            [
                "  manifest.json \(isDryRun ? "would be" : "was") removed: it offered \(version), and no other release is for every device. "
                    + "Devices that follow it keep \(version) until a higher version is published."
            ]
        }
    }

    static func warn(_ report: ChannelReport) {
        for warning in report.warnings { Output.warn("channel \(report.document.channel): \(warning)") }
    }

    static func lines(_ report: ChannelReport) -> [String] {
        let document = report.document
        let what =
            switch report.outcome {
            case .changed: report.previousSequence == nil ? "created" : "changed"
            case .unchanged: "unchanged, nothing was written"
            case .completed: "unchanged; manifest.json was missing or outdated, and was written"
            case .dryRun: "would change (dry run; nothing was written)"
            }
        return ["channel \(document.channel): \(what)"] + report.changes.map { "  \($0)" }
            + line(report.newest, isDryRun: report.outcome == .dryRun)
            + [
                "  sequence \(document.sequence), \(document.expires <= .now ? "expired at" : "until") \(document.expires)"
            ]
            + WriteOutput.lines(report.writes)
    }
}

/// The lines and JSON of the files that a dry run would write.
enum WriteOutput {
    static func value(_ writes: [FeedWrite]) -> JSONValue {
        .array(
            writes.map { write in
                var headers: JSONObject = [:]
                for header in write.headers { headers[header.name] = .string(header.value) }
                return .object([
                    "kind": .string(write.kind.rawValue), "name": .string(write.name), "bytes": .integer(write.size),
                    "headers": .object(headers),
                ])
            })
    }

    static func lines(_ writes: [FeedWrite]?) -> [String] {
        (writes ?? []).map { write in
            let headers = write.headers.map { "; \($0.name): \($0.value)" }.joined()
            let verb = write.kind == .probe ? "would test the bucket with" : "would \(write.kind.rawValue)"
            return "  \(verb)  \(write.name), \(counted(write.size, "byte"))\(headers)"
        }
    }
}
