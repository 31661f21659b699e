import ArchiveSource
import ArgumentParser
import BundleCore
import BundleValues
import BundlePublish

/// `clientctl release`.
struct Release: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "release",
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
            ReleaseList.self, ReleaseLog.self, ReleaseRollout.self, ReleaseGroups.self, ReleaseUrgent.self,
            ReleaseRetry.self, ReleasePause.self, ReleaseResume.self, ReleaseRevoke.self,
            ReleasePromote.self, ReleaseRemove.self, ReleaseUnpublish.self, ReleasePoll.self, ReleaseBusy.self,
            ReleaseGuard.self,
            ReleaseResign.self, ReleaseRestore.self,
            ReleaseDelta.self, ReleasePageCommand.self, ReleaseInsightsCommand.self,
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
            Lowering it takes the release from the devices that are left out then.

            With --ramp the share grows by itself, by one signed document: devices take
            each step when its time has come. `release pause` holds a ramp, `release
            resume` moves what remains of it, and a plain percentage replaces it.

            Examples:
              clientctl release rollout 2.5% --version 1.5.0 --feed feed --channel stable \\
                --channel-key channel.key.pem
              clientctl release rollout 100% --version 1.5.0 --feed feed --channel stable \\
                --channel-key channel.key.pem --dry-run
              clientctl release rollout --ramp 1%,10%,50%,100% --every 1d \\
                --version 1.5.0 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @OptionGroup var version: VersionOption
    @Argument(help: "The share of devices, 0% to 100%, such as 25% or 2.5%.")
    var percent: String?

    @Option(
        help: ArgumentHelp(
            "In place of a percentage, shares that follow each other: at most 20, ascending, such as 1%,10%,50%,100%.",
            valueName: "percent,..."))
    var ramp: String?

    @Option(
        help: ArgumentHelp("With --ramp, the time from one share to the next; 1d by default.", valueName: "duration"))
    var every: String?

    @Option(
        help: ArgumentHelp(
            "With --ramp, when it starts, such as 2026-12-01T08:00:00Z; at once by default.", valueName: "time"))
    var start: String?

    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange {
        let version = try version.semantic(settings)
        if let percent {
            if ramp != nil || every != nil || start != nil {
                throw ValidationError("Give a percentage or --ramp, one of them.")
            }
            return .rollout(version, try ChannelEditOptions.share("PERCENT", percent).permille)
        }
        guard let text = try settings.optional("ramp", ramp) else {
            throw ValidationError("Missing percentage: give the share of devices, such as 25%, or --ramp.")
        }
        let shares = try ChannelEditOptions.shares("--ramp", text)
        guard shares.count <= Ramp.maximumSteps else {
            throw ValidationError("--ramp takes at most \(Ramp.maximumSteps) shares.")
        }
        let every = try PublishTime.duration("every", every, settings) ?? .seconds(86_400)
        let start = try settings.optional("start", start).map { text in
            try settings.parsed("start", text) { try Timestamp(parsing: $0) }
        }
        return .ramp(version, steps: shares, every: Int(clamping: every.components.seconds), from: start)
    }
}

struct ReleaseGroups: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "groups",
        abstract: "Name the groups of devices that install a release first, or alone.",
        discussion: """
            A device is in the groups that it is given by --group. It takes the release
            whatever the rollout says, unless that is paused. With --only nobody else
            takes it. `clientctl status` shows the group that one device is alone in.

            Examples:
              clientctl release groups qa,eu --version 1.5.0 --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release groups qa --only --version 1.5.0 --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release groups --undo --version 1.5.0 --feed feed \\
                --channel stable --channel-key channel.key.pem
            """)

    @OptionGroup var version: VersionOption
    @Argument(help: "The groups, such as qa,eu; a single device is device:1f0a2b3c4d5e6f70.")
    var groups: String?

    @Flag(help: "For these groups alone.")
    var only = false

    @Flag(help: "For no groups any more: the rollout says who gets it.")
    var undo = false

    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange {
        let version = try version.semantic(settings)
        let isOnly = try settings.isOn("only", only)
        if try settings.isOn("undo", undo) {
            if groups != nil || isOnly { throw ValidationError("--undo takes neither groups nor --only.") }
            return .groups(version, [], only: false)
        }
        guard let groups else { throw ValidationError("Missing groups: name them, such as qa,eu, or give --undo.") }
        let names = Set(groups.split(separator: ",", omittingEmptySubsequences: false).map(String.init))
        guard names.count <= ChannelDocument.Release.mostGroups, names.allSatisfy(DeviceGroup.isNamedByReleases) else {
            throw ValidationError(
                "Groups are at most \(ChannelDocument.Release.mostGroups) names with commas between them: \(DeviceGroup.rule). A single "
                    + "device is device: and 16 hex digits.")
        }
        return .groups(version, names.sorted(), only: isOnly)
    }
}

struct ReleaseUrgent: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "urgent",
        abstract: "Have devices show a release as soon as they have it.",
        discussion: """
            `serve` then waits for no activation window, and spreads the checks that an
            announcement causes over a minute at most. A page that says that it is busy
            is left alone for a while all the same.

            Examples:
              clientctl release urgent --version 1.5.1 --feed feed --channel stable \\
                --channel-key channel.key.pem
              clientctl release urgent --undo --version 1.5.1 --feed feed \\
                --channel stable --channel-key channel.key.pem
            """)

    @OptionGroup var version: VersionOption

    @Flag(help: "It is a release like any other.")
    var undo = false

    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange {
        .urgent(try version.semantic(settings), try !settings.isOn("undo", undo))
    }
}

struct ReleaseRetry: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "retry",
        abstract: "Have devices that blocked a release, because it failed to start, try it once more.",
        discussion: """
            Use it when the release is good and something else was not, such as a backend
            that was away. A device that fails again blocks it again. A release has at
            most 8 retries. What an operator has rolled back by hand stays blocked.

            Example:
              clientctl release retry --version 1.5.1 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @OptionGroup var version: VersionOption
    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange { .retry(try version.semantic(settings)) }
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
            --undo undoes the recall of a version.

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

    @Flag(help: "Undo the recall of the version.")
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
            if undoes { return .reinstate(version) }
            guard let reason, !reason.isEmpty else {
                throw ValidationError("Missing --reason: say why; devices and people who come later read it.")
            }
            return .revoke(version, reason: reason)
        case (nil, nil): throw MissingFlag(flags: ["version", "below"])
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

    @Flag(help: "Create the channel that gets it.")
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
