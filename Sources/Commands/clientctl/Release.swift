import ArchiveSource
import ArgumentParser
import BundleCore
import BundleValues
import BundlePublish

struct ReleaseCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "release",
        abstract: "Change the releases of a channel: rollouts, pauses, recalls, promotions.",
        discussion: """
            A channel is the file FEED/channels/NAME.json, which lists the releases that
            devices can run. Each change signs a new file. `publish --channel` adds
            releases.

            Examples:
              clientctl channel list --feed feed --channel stable
              clientctl release rollout 25% --version 1.5.0 --feed feed --channel stable \\
                --channel-key channel.key.pem
              clientctl release recall --version 1.5.0 --reason "white screen" \\
                --feed feed --channel stable --channel-key channel.key.pem
            """,
        subcommands: [
            ReleaseRollout.self, ReleaseTarget.self, ReleaseSet.self, ReleaseRetry.self, ReleasePause.self,
            ReleaseResume.self, ReleaseRecall.self, ReleasePromote.self, ReleaseWithdraw.self, ReleaseDelta.self,
        ])
}

/// A command that makes one change to a channel.
protocol ChannelEdit: AsyncParsableCommand {
    var edit: ChannelEditOptions { get }
    func change(_ settings: Settings) async throws -> ChannelChange
}

extension ChannelEdit {
    func run() async throws {
        let settings = try edit.common.settings()
        let change = try await change(settings)
        try await edit.run(settings, about: change.version) { try $0.apply(change, to: $1) }
    }
}

extension ChannelEditOptions {
    /// Applies `edit` to the channel and prints the result. `adjusting` changes the terms that the flags state; `version` is the release
    /// that the edit is about.
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
        abstract: "Set the percentage of devices that can install a release.",
        discussion: """
            A hash of release and device ID picks the devices, so a higher percentage only
            adds devices. A lower percentage removes the release from the devices that are
            no longer included.

            With --ramp, one signed file states all steps, and devices apply each step at
            its time. `release pause` suspends a ramp, `release resume` delays the steps
            that remain, and a plain percentage replaces it.

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
    @Argument(help: "(required, or --ramp) Percentage of devices, 0% to 100%, such as 25% or 2.5%.")
    var percent: String?

    @Option(
        help: ArgumentHelp(
            "Instead of a percentage, at most 20 ascending percentages, such as 1%,10%,50%,100%.",
            valueName: "percent,..."))
    var ramp: String?

    @Option(
        help: ArgumentHelp("With --ramp, the time between two steps. (default: 1d)", valueName: "duration"))
    var every: String?

    @Option(
        help: ArgumentHelp(
            "With --ramp, the time of the first step, such as 2026-12-01T08:00:00Z. (default: now)", valueName: "time"))
    var start: String?

    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange {
        let version = try version.semantic(settings)
        if let percent {
            if ramp != nil || every != nil || start != nil {
                throw ValidationError("Give a percentage or --ramp, not both.")
            }
            return .rollout(version, try ChannelEditOptions.share("PERCENT", percent).permille)
        }
        guard let text = try settings.optional("ramp", ramp) else {
            throw ValidationError("Missing percentage: give the percentage of devices, such as 25%, or --ramp.")
        }
        let shares = try ChannelEditOptions.shares("--ramp", text)
        guard shares.count <= Ramp.maximumSteps else {
            throw ValidationError("--ramp takes at most \(Ramp.maximumSteps) percentages.")
        }
        let every = try PublishTime.duration("every", every, settings) ?? .seconds(86_400)
        let start = try settings.optional("start", start).map { text in
            try settings.parsed("start", text) { try Timestamp(parsing: $0) }
        }
        return .ramp(version, steps: shares, every: Int(clamping: every.components.seconds), from: start)
    }
}

struct ReleaseTarget: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "target",
        abstract: "Name the groups of devices that install a release first, or exclusively.",
        discussion: """
            --group on a device sets its groups. A device in one of the named groups
            installs the release at any rollout percentage, unless the release is paused.
            With --only, no other device installs it. `clientctl status` shows the group
            that contains only that device. With --roster, names of devices are accepted,
            too.

            Examples:
              clientctl release target qa,eu --version 1.5.0 --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release target qa --only --version 1.5.0 --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release target --undo --version 1.5.0 --feed feed \\
                --channel stable --channel-key channel.key.pem
            """)

    @OptionGroup var version: VersionOption
    @Argument(help: "(required, or --undo) The groups, such as qa,eu. A single device is device:1f0a2b3c4d5e6f70.")
    var groups: String?

    @Flag(help: "Only devices in these groups install the release.")
    var only = false

    @Flag(help: "Remove all groups; only the rollout percentage applies.")
    var undo = false

    @OptionGroup var devices: RosterPlaceOptions
    @OptionGroup var way: WayOptions
    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) async throws -> ChannelChange {
        let version = try version.semantic(settings)
        let isOnly = try settings.isOn("only", only)
        if try settings.isOn("undo", undo) {
            if groups != nil || isOnly { throw ValidationError("--undo takes neither groups nor --only.") }
            return .groups(version, [], only: false)
        }
        guard let groups else { throw ValidationError("Missing groups: name them, such as qa,eu, or give --undo.") }
        let words = groups.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        let names = Set(try await devices.groups(words, way, settings))
        guard names.count <= ChannelDocument.Release.mostGroups, names.allSatisfy(DeviceGroup.isNamedByReleases) else {
            throw ValidationError(
                "Groups are at most \(ChannelDocument.Release.mostGroups) names with commas between them: \(DeviceGroup.rule). A single "
                    + "device is device: and 16 hex digits.")
        }
        return .groups(version, names.sorted(), only: isOnly)
    }
}

struct ReleaseSet: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Set whether devices show a release as soon as they have it.",
        discussion: """
            For an urgent release, `serve` ignores its activation window, and spreads the
            checks after an announcement over at most one minute. It still waits for a page
            that reports that it is busy, within the limit of `channel set --busy`.

            Examples:
              clientctl release set --urgent --version 1.5.1 --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release set --no-urgent --version 1.5.1 --feed feed \\
                --channel stable --channel-key channel.key.pem
            """)

    @OptionGroup var version: VersionOption

    @Flag(help: "(required, or --no-urgent) Devices show the release as soon as they have it.")
    var urgent = false

    @Flag(help: "Devices show the release when its page asks for it, or in their activation window.")
    var noUrgent = false

    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange {
        .urgent(try version.semantic(settings), try isUrgent(settings))
    }

    private func isUrgent(_ settings: Settings) throws -> Bool {
        // A flag on the command line wins over its opposite in the environment and the configuration file.
        if urgent != noUrgent { return urgent }
        switch (try settings.isOn("urgent", urgent), try settings.isOn("no-urgent", noUrgent)) {
        case (true, true): throw ValidationError("Give --urgent or --no-urgent, not both.")
        case (false, false): throw MissingFlag(flags: ["urgent", "no-urgent"])
        case (let isUrgent, _): return isUrgent
        }
    }
}

struct ReleaseRetry: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "retry",
        abstract: "Make devices that blocked a release after failed starts try it once more.",
        discussion: """
            Use it if the release works and something else failed, such as a backend. A
            device on which the release fails again blocks it again. A release has at most
            8 retries. A release that an operator rolled back on a device stays blocked
            there.

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

struct ReleaseRecall: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "recall",
        abstract: "Recall a release. Devices that run it move to the best of the other releases.",
        discussion: """
            Give --version or --below. --below recalls every release below a version
            permanently: this minimum version only rises. --undo undoes the recall of one
            version.

            `release withdraw` removes a release from a channel; `feed offer` changes the
            release that manifest.json offers.

            Examples:
              clientctl release recall --version 1.5.0 --reason "white screen" \\
                --feed feed --channel stable --channel-key channel.key.pem
              clientctl release recall --version 1.5.0 --undo --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release recall --below 1.4.0 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @Option(help: ArgumentHelp("(required, except with --below) Version, such as 1.5.0.", valueName: "version"))
    var version: String?

    @Option(
        help: ArgumentHelp(
            "(required with --version, unless --undo) The reason of the recall. Devices show it.", valueName: "text"))
    var reason: String?

    @Option(help: ArgumentHelp("Recall every release below this version, permanently.", valueName: "version"))
    var below: String?

    @Flag(help: "Undo the recall of the version.")
    var undo = false

    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange {
        let reason = try settings.optional("reason", reason)
        let undoes = try settings.isOn("undo", undo)
        switch (try settings.optional("version", version), try settings.optional("below", below)) {
        case (nil, let below?):
            if undoes || reason != nil { throw ValidationError("--below takes neither --undo nor --reason.") }
            return .recallBelow(try settings.parsed("below", below) { try SemanticVersion(parsingArgument: $0) })
        case (_?, nil):
            let version = try settings.parsed("version", try settings.required("version", self.version)) {
                try SemanticVersion(parsingArgument: $0)
            }
            if undoes { return .reinstate(version) }
            guard let reason, !reason.isEmpty else {
                throw ValidationError(
                    "Missing --reason: state why the release is recalled. Devices and `channel log` show it.")
            }
            return .recall(version, reason: reason)
        case (nil, nil): throw MissingFlag(flags: ["version", "below"])
        default: throw ValidationError("Give --version or --below, not both.")
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

    @Option(help: ArgumentHelp("(required) The channel that gets the release.", valueName: "name"))
    var to: String?

    @Option(
        help: ArgumentHelp(
            "Percentage of devices that can install it there, such as 10%. (default: as in --channel)",
            valueName: "percent"))
    var rollout: String?

    @Flag(help: "Create the channel that gets the release.")
    var create = false

    @Option(
        help: ArgumentHelp(
            "With --create, the first sequence; use a higher one if the channel file was lost. (default: 1)",
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
            if source == target {
                throw ValidationError("--to and --channel name the same channel: give two different ones.")
            }
            return try editor.promote(version, from: source, to: target, rollout: rollout)
        }
    }
}

struct ReleaseWithdraw: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "withdraw",
        abstract: "Remove a release from a channel. Devices that run it keep it.",
        discussion: """
            `release recall` recalls a release from devices; `feed offer` changes the
            release that manifest.json offers.

            Example:
              clientctl release withdraw --version 1.2.0 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @OptionGroup var version: VersionOption
    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange { .withdraw(try version.semantic(settings)) }
}
