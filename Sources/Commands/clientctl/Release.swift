import ArchiveSource
import ArgumentParser
import BundleCore
import BundleValues
import BundlePublish

/// `clientctl release`.
struct Release: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show and change a channel: rollouts, pauses, recalls, promotions.",
        discussion: """
            A channel is FEED/channels/NAME.json: which releases devices may run. Each
            change signs a new document; publish --channel adds releases.

            Examples:
              clientctl release list --feed feed --channel stable
              clientctl release rollout 25% --version 1.5.0 --feed feed --channel stable \\
                --channel-key channel.key.pem
              clientctl release revoke --version 1.5.0 --reason "white screen" \\
                --feed feed --channel stable --channel-key channel.key.pem
            """,
        subcommands: [
            ReleaseList.self, ReleaseLog.self, ReleaseRollout.self, ReleasePause.self, ReleaseResume.self,
            ReleaseRevoke.self,
            ReleasePromote.self, ReleaseRemove.self, ReleaseUnpublish.self, ReleasePoll.self, ReleaseGuard.self,
            ReleaseResign.self, ReleaseRestore.self,
            ReleaseDelta.self,
        ])
}

/// A command that changes one channel by one decision.
protocol ChannelEdit: AsyncParsableCommand {
    var edit: ChannelEditOptions { get }
    func change(_ settings: Settings) throws -> ChannelChange
}

extension ChannelEdit {
    func run() async throws {
        let settings = try edit.common.settings()
        let change = try change(settings)
        try await edit.run(settings, about: change.version) { try $0.apply(change, to: $1) }
    }
}

extension ChannelEditOptions {
    /// Edits the channel, by terms that `adjusting` makes of the flags, and tells what came of it; `version` is the release that it is about.
    func run(
        _ settings: Settings, about version: SemanticVersion? = nil,
        adjusting: (inout ChannelTerms) throws -> Void = { _ in },
        _ edit: (ChannelEditor, _ channel: String) throws -> ChannelReport
    ) async throws {
        let next = try after.plan(settings)
        let (feed, channel) = try place(settings)
        var terms = try options(settings)
        try adjusting(&terms)
        let report = try edit(ChannelEditor(feed: feed, terms), channel)
        ChannelOutput.warn(report)
        try await next.finish(
            Publication(of: report, in: feed, about: version), try settings.isOn("json", common.json),
            ChannelOutput.object(report), ChannelOutput.lines(report))
    }
}

struct ReleaseRollout: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "rollout",
        abstract: "Set the percentage of devices that may install a release.",
        discussion: """
            Which ones is drawn by release and device, so raising it only adds devices.
            Lowering it takes the release back from those that are left out then.

            Examples:
              clientctl release rollout 2.5% --version 1.5.0 --feed feed --channel stable \\
                --channel-key channel.key.pem
              clientctl release rollout 100% --version 1.5.0 --feed feed --channel stable \\
                --channel-key channel.key.pem --dry-run
            """)

    @OptionGroup var version: VersionOption
    @Argument(help: "The share of devices, 0% to 100%, such as 25% or 2.5%.")
    var percent: String
    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange {
        .rollout(try version.semantic(settings), try ChannelEditOptions.share("PERCENT", percent).permille)
    }
}

struct ReleasePause: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Pause a release. Devices that have it keep it; no other device installs it.",
        discussion: """
            Example:
              clientctl release pause --version 1.5.0 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @OptionGroup var version: VersionOption
    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange { .pause(try version.semantic(settings)) }
}

struct ReleaseResume: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Resume a paused release.",
        discussion: """
            Example:
              clientctl release resume --version 1.5.0 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @OptionGroup var version: VersionOption
    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange { .resume(try version.semantic(settings)) }
}

struct ReleaseRevoke: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Recall a release. Devices that run it move to the best of the others.",
        discussion: """
            --below recalls everything below a version, for good: that floor only rises.
            --undo takes a mistaken revocation of a version back.

            Examples:
              clientctl release revoke --version 1.5.0 --reason "white screen" \\
                --feed feed --channel stable --channel-key channel.key.pem
              clientctl release revoke --version 1.5.0 --undo --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release revoke --below 1.4.0 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @OptionGroup var version: VersionOption

    @Option(help: ArgumentHelp("Why, for people; devices show it.", valueName: "text"))
    var reason: String?

    @Option(help: ArgumentHelp("Recall everything below this version, for good.", valueName: "version"))
    var below: String?

    @Flag(help: "The version was revoked by mistake.")
    var undo = false

    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange {
        let reason = try settings.optional("reason", reason)
        let undoes = try settings.isOn("undo", undo)
        switch (try settings.optional("version", version.version), try settings.optional("below", below)) {
        case (nil, let below?):
            if undoes || reason != nil { throw ValidationError("--below takes neither --undo nor --reason.") }
            return .revokeBelow(try settings.parsed("below", below) { try SemanticVersion(parsingArgument: $0) })
        case (_?, nil):
            let version = try version.semantic(settings)
            if undoes { return .unrevoke(version) }
            guard let reason, !reason.isEmpty else {
                throw ValidationError("Missing --reason: say why; devices and people who come later read it.")
            }
            return .revoke(version, reason: reason)
        default: throw ValidationError("Give --version or --below, one of them.")
        }
    }
}

struct ReleasePromote: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "promote",
        abstract: "Copy a release from one channel to another, with its pause and rollout.",
        discussion: """
            Example:
              clientctl release promote --version 1.5.0 --channel beta --to stable \\
                --rollout 10% --feed feed --channel-key channel.key.pem
            """)

    @OptionGroup var version: VersionOption

    @Option(help: ArgumentHelp("The channel that gets it.", valueName: "name"))
    var to: String?

    @Option(
        help: ArgumentHelp(
            "The share of devices that may have it there, such as 10%; by default as in the channel it comes from.",
            valueName: "percent"))
    var rollout: String?

    @Flag(help: "Make the channel that gets it, which is not there yet.")
    var create = false

    @Option(
        help: ArgumentHelp(
            "With --create, the sequence to begin with; 1 by default, more where the channel's document was lost.",
            valueName: "n"))
    var sequence: String?

    @OptionGroup var edit: ChannelEditOptions

    func run() async throws {
        let settings = try edit.common.settings()
        let version = try version.semantic(settings)
        let target = try settings.required("to", to)
        let rollout = try settings.optional("rollout", rollout).map {
            try ChannelEditOptions.share("--rollout", $0).permille
        }
        let first = try ChannelEditOptions.firstSequence(create, sequence, settings)
        try await edit.run(settings, about: version, adjusting: { $0.firstSequence = first }) { editor, source in
            if source == target { throw ValidationError("--to names another channel than --channel.") }
            return try editor.promote(version, from: source, to: target, rollout: rollout)
        }
    }
}

struct ReleaseRemove: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove a release from a channel. Devices that run it keep it; `revoke` recalls it.",
        discussion: """
            Example:
              clientctl release remove --version 1.2.0 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @OptionGroup var version: VersionOption
    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange { .remove(try version.semantic(settings)) }
}

struct ReleasePoll: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "poll",
        abstract: "Set how often running devices check for updates.",
        discussion: """
            From their next check on; a device that is given --check-interval keeps to
            that. The jitter also spreads the checks of devices that hear of a change by
            push: it is none unless stated.

            Examples:
              clientctl release poll --interval 5m --jitter 1m --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release poll --undo --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @Option(help: ArgumentHelp("The time between two checks, 10s to 7d.", valueName: "duration"))
    var interval: String?

    @Option(help: ArgumentHelp("At most so much later, at random; 0s by default.", valueName: "duration"))
    var jitter: String?

    @Flag(help: "Leave it to the devices.")
    var undo = false

    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange {
        let interval = try seconds("interval", interval, settings)
        let jitter = try seconds("jitter", jitter, settings)
        if try settings.isOn("undo", undo) {
            if interval != nil || jitter != nil {
                throw ValidationError("--undo takes neither --interval nor --jitter.")
            }
            return .poll(nil)
        }
        guard let interval else { throw ValidationError("Missing --interval: say how often, or --undo.") }
        guard PollPace.allowed.contains(.seconds(interval)) else {
            throw ValidationError("--interval takes 10s to 7d: devices keep to nothing else.")
        }
        if let jitter, jitter > interval { throw ValidationError("--jitter is at most the interval.") }
        return .poll(ChannelDocument.Poll(interval: interval, jitter: jitter ?? 0))
    }

    private func seconds(_ name: String, _ given: String?, _ settings: Settings) throws -> Int? {
        guard let text = try settings.optional(name, given) else { return nil }
        let parts = try settings.parsed(name, text) { try DurationText(parsing: $0).duration }.components
        if parts.attoseconds != 0 { throw ValidationError("--\(name) takes whole seconds, not \(text).") }
        return Int(clamping: parts.seconds)
    }
}

struct ReleaseResign: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resign",
        abstract: "Sign a channel document again, with a later expiry.",
        discussion: """
            Devices install nothing by a document that is out of date, so a quiet channel
            is signed anew from time to time, as by cron:

            Examples:
              clientctl release resign --if-expires-within 7d --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release resign --feed feed --channel stable \\
                --channel-key new.key.pem --trust old.pub.pem
            """)

    @Option(help: ArgumentHelp("Do nothing unless it expires so soon, such as 7d.", valueName: "duration"))
    var ifExpiresWithin: String?

    @OptionGroup var edit: ChannelEditOptions

    func run() async throws {
        let settings = try edit.common.settings()
        let time = try PublishTime.duration("if-expires-within", ifExpiresWithin, settings)
        try await edit.run(settings) { editor, channel in
            if let time { return try editor.resign(channel, ifExpiresWithin: time) }
            return try editor.apply(.resign, to: channel)
        }
    }
}

struct ReleaseRestore: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Restore a channel document that was lost or rolled back, from its copies.",
        discussion: """
            Devices take no document with a lower sequence than they have seen. The
            restored one goes on above every copy below FEED/channels/NAME, so they
            take it. It offers what the newest copy offered, or --copy. What was
            recalled since stays recalled.

            Examples:
              clientctl release restore --feed feed --channel stable \\
                --channel-key channel.key.pem
              clientctl release restore --copy 17 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @Option(help: ArgumentHelp("Offer what the copy with this sequence offered.", valueName: "n"))
    var copy: String?

    @OptionGroup var edit: ChannelEditOptions

    func run() async throws {
        let settings = try edit.common.settings()
        let sequence = try settings.optional("copy", copy).map { try settings.integer("copy", $0, atLeast: 1) }
        try await edit.run(settings) { try $0.restore($1, to: sequence) }
    }
}

struct ReleaseUnpublish: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpublish",
        abstract: "Make manifest.json offer an earlier release again.",
        discussion: """
            For feeds without a channel. Devices that have not installed the release
            yet do not get it any more. Devices that have it keep it, for a
            manifest.json never leads back: publish a higher version for them. The
            release's files stay.

            Example:
              clientctl release unpublish --version 1.5.1 --feed feed
            """)

    @OptionGroup var version: VersionOption

    @Option(help: ArgumentHelp("The release to offer; by default the newest below it.", valueName: "version"))
    var to: String?

    @Option(help: ArgumentHelp("The feed: a folder or s3://bucket/prefix.", valueName: "place"), completion: .directory)
    var feed: String?

    @Flag(help: "Tell what would change, and write nothing.")
    var dryRun = false

    @OptionGroup var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var after: AfterOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.settings()
        let next = try after.plan(settings)
        let version = try version.semantic(settings)
        let target = try settings.optional("to", to).map { text in
            try settings.parsed("to", text) { try SemanticVersion(parsingArgument: $0) }
        }
        let isDryRun = try settings.isOn("dry-run", dryRun)
        let feed = try Wiring.place(feed, bucket, settings)
        let done = try ReleaseWithdrawal(
            version, to: target, in: feed, clock: .now, wait: try waiting.wait(settings), isDryRun: isDryRun)
        let verb = isDryRun ? "would offer" : "offers"
        let outcome = isDryRun ? Publication.dryRun : "changed"
        var object: JSONObject = [
            "version": .string(version.description), "offered": .string(done.offered.description),
            "outcome": .string(outcome),
        ]
        object["writes"] = done.writes.map(WriteOutput.value)
        try await next.finish(
            Publication(feed: feed, outcome: outcome, documents: ["manifest.json"], version: done.offered),
            try settings.isOn("json", common.json),
            object,
            [
                "manifest.json \(verb) \(done.offered) in place of \(version)",
                "devices that have \(version) keep it: publish a version above it for them",
            ] + WriteOutput.lines(done.writes))
    }
}
