import BundleFormats
import ArgumentParser
import BundleCore
import BundleValues
import BundlePublish

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

    @OptionGroup var proposal: ProposalOptions
    @OptionGroup var edit: ChannelEditOptions

    func change() throws -> ChannelChange {
        let version = try version.semantic()
        if let percent {
            if CommandLineFlags.containAny(of: "ramp", "every", "start") {
                throw ValidationError("Give a percentage or --ramp, not both.")
            }
            return .rollout(version, try ChannelEditOptions.share("PERCENT", text: percent).permille)
        }
        guard let text = ramp else {
            throw ValidationError("Missing percentage: give the percentage of devices, such as 25%, or --ramp.")
        }
        let shares = try ChannelEditOptions.shares("--ramp", text: text)
        guard shares.count <= Ramp.maximumSteps else {
            throw ValidationError("--ramp takes at most \(Ramp.maximumSteps) percentages.")
        }
        let every = try PublishTime.duration(every, of: "every") ?? .seconds(86_400)
        let start = try start.map { text in try FlagValue.parsed(text, of: "start") { try Timestamp(parsing: $0) } }
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
    @OptionGroup(title: "Network") var way: WayOptions
    @OptionGroup var proposal: ProposalOptions
    @OptionGroup var edit: ChannelEditOptions

    func change() async throws -> ChannelChange {
        let version = try version.semantic()
        if undo {
            if groups != nil || only { throw ValidationError("--undo takes neither groups nor --only.") }
            return .groups(version, [], only: false)
        }
        guard let groups else { throw ValidationError("Missing groups: name them, such as qa,eu, or give --undo.") }
        let words = groups.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        let names = Set(try await devices.groups(words, way: way))
        guard names.count <= ChannelDocument.Release.mostGroups, names.allSatisfy(DeviceGroup.isNamedByReleases) else {
            throw ValidationError(
                "\(UntrustedName.display(groups)) is not a list of groups. Give at most \(ChannelDocument.Release.mostGroups) names with commas "
                    + "between them: \(DeviceGroup.rule). For a single device, give device: and its 16 hex digits.")
        }
        return .groups(version, names.sorted(), only: only)
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

    @OptionGroup var proposal: ProposalOptions
    @OptionGroup var edit: ChannelEditOptions

    func change() throws -> ChannelChange {
        .urgent(try version.semantic(), try isUrgent())
    }

    private func isUrgent() throws -> Bool {
        switch (urgent, noUrgent) {
        case (true, true): throw ValidationError("Give --urgent or --no-urgent, not both.")
        case (false, false): throw MissingFlag(flags: ["urgent", "no-urgent"])
        case (let isUrgent, _): return isUrgent
        }
    }
}
