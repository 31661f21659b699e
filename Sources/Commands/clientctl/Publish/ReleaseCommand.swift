import BundleFormats
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

            If the trust root requires several channel keys, one person proposes a change
            with --propose, and another approves it with `release approve`.
            """,
        subcommands: [
            ReleaseRollout.self, ReleaseTarget.self, ReleaseSet.self, ReleaseRetry.self, ReleasePause.self,
            ReleaseResume.self, ReleaseRecall.self, ReleasePromote.self, ReleaseWithdraw.self, ReleaseDelta.self,
            ReleaseProposals.self, ReleaseApprove.self,
        ])
}

/// A command that edits a channel file.
protocol ChannelEditCommand: AsyncParsableCommand, Sendable {
    var edit: ChannelEditOptions { get set }
    func work() async throws -> ChannelWork
}

extension ChannelEditCommand {
    func run() async throws { try await edit.run(work()) }
}

/// A command whose change can wait for another person.
protocol ProposableCommand: ChannelEditCommand {
    var proposal: ProposalOptions { get set }
}

extension ProposableCommand {
    func run() async throws {
        var work = try await work()
        work.proposes = proposal.propose
        try await edit.run(work)
    }
}

/// A command that makes one change to a channel.
protocol ChannelEdit: ProposableCommand {
    func change() async throws -> ChannelChange
}

extension ChannelEdit {
    func work() async throws -> ChannelWork {
        let change = try await change()
        return ChannelWork(version: change.version) { try $0.apply(change, to: $1) }
    }
}

/// What a command does with a channel.
struct ChannelWork: Sendable {
    /// The release that it is about; nil if it is about the whole channel.
    var version: SemanticVersion?
    /// The first sequence of a channel that it may create; nil if it may not create one.
    var firstSequence: Int?
    /// Whether the change waits for another person.
    var proposes = false
    let apply: @Sendable (ChannelEditor, _ channel: String) throws -> ChannelReport
}

extension ChannelEditOptions {
    /// Does the work and prints the result, after `difference`.
    @discardableResult
    func run(_ work: ChannelWork, difference: [String] = []) async throws -> ChannelReport {
        let next = try after.plan()
        let report = try report(work)
        let names = try report.proposal == nil ? KeyNames() : names()
        ChannelOutput.warn(report)
        var object = ChannelOutput.object(report, names)
        if !difference.isEmpty { object["difference"] = .array(difference.map(JSONValue.string)) }
        try await next.finish(
            Publication(of: report, in: place().feed, about: work.version), json: common.json, object: object,
            lines: difference + ChannelOutput.lines(report, names))
        return report
    }

    /// The labels of the keys in the trust root of `--trust`.
    func names() throws -> KeyNames {
        try KeyNames(in: place().feed, trust: trust.map(TrustAnchor.read), clock: .now)
    }

    /// Does the work and returns its report.
    func report(_ work: ChannelWork) throws -> ChannelReport {
        let (feed, channel) = try place()
        var terms = try options()
        (terms.firstSequence, terms.proposes) = (work.firstSequence, work.proposes)
        return try work.apply(ChannelEditor(feed: feed, terms), channel)
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
    @OptionGroup var proposal: ProposalOptions
    @OptionGroup var edit: ChannelEditOptions

    func change() throws -> ChannelChange { .retry(try version.semantic()) }
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
    @OptionGroup var proposal: ProposalOptions
    @OptionGroup var edit: ChannelEditOptions

    func change() throws -> ChannelChange { .pause(try version.semantic()) }
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
    @OptionGroup var proposal: ProposalOptions
    @OptionGroup var edit: ChannelEditOptions

    func change() throws -> ChannelChange { .resume(try version.semantic()) }
}

struct ReleaseRecall: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "recall",
        abstract: "Recall a release. Devices that run it move to the best of the other releases.",
        discussion: """
            Give --version or --below. --below recalls every release below a version: this
            minimum version only rises. --undo undoes the recall of one version, or with
            --below the minimum version that it names.

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

    @Option(
        help: ArgumentHelp("(required, or --below) Version, such as 1.5.0.", valueName: "version"),
        completion: .versions)
    var version: String?

    @Option(
        help: ArgumentHelp(
            "(required with --version, unless --undo) The reason of the recall. Devices show it.", valueName: "text"))
    var reason: String?

    @Option(
        help: ArgumentHelp(
            "Recall every release below this version; with --undo, the minimum version to undo.", valueName: "version"))
    var below: String?

    @Flag(help: "Undo the recall of the version, or the minimum version of --below.")
    var undo = false

    @OptionGroup var proposal: ProposalOptions
    @OptionGroup var edit: ChannelEditOptions

    func change() throws -> ChannelChange {
        switch (version, below) {
        case (nil, let below?):
            if reason != nil { throw ValidationError("--below takes no --reason.") }
            let floor = try FlagValue.version(below, of: "below")
            return undo ? .undoMinimum(floor) : .recallBelow(floor)
        case (_?, nil):
            let version = try FlagValue.version(try FlagValue.required(self.version, of: "version"), of: "version")
            if undo { return .reinstate(version) }
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

struct ReleasePromote: ProposableCommand {
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

    @OptionGroup var new: NewChannelOptions
    @OptionGroup var proposal: ProposalOptions
    @OptionGroup var edit: ChannelEditOptions

    func work() throws -> ChannelWork {
        let version = try version.semantic()
        let target = try FlagValue.required(to, of: "to")
        let rollout = try rollout.map { try ChannelEditOptions.share("--rollout", text: $0).permille }
        return ChannelWork(version: version, firstSequence: try new.firstSequence()) { editor, source in
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
    @OptionGroup var proposal: ProposalOptions
    @OptionGroup var edit: ChannelEditOptions

    func change() throws -> ChannelChange { .withdraw(try version.semantic()) }
}
