import ArgumentParser
import BundleCore
import BundleFleet
import BundleValues
import BundleShell

/// The flags of a device that a roster lists.
struct RosterOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Send the state of this device to the roster at this address, such as https://updates.example.com/roster.",
            valueName: "url"))
    var roster: String?

    @Option(
        help: ArgumentHelp(
            "With --roster, the name of this device for people, of at most 64 characters.", valueName: "text"))
    var name: String?

    @Option(
        help: ArgumentHelp(
            "With --roster, a fact about this device for people, such as site=Lisbon. Repeat it for at most 8.",
            valueName: "name=value"))
    var tag: [String] = []

    @Option(
        help: ArgumentHelp(
            "With --roster, whether the last line of the error of a failed start is sent: yes or no. (default: yes)",
            valueName: "yes|no"), completion: .list(["yes", "no"]))
    var rosterErrors: String?

    /// Returns the sender to the roster; nil without `--roster`.
    func sender(_ update: UpdateOptions, configuration: ShellConfiguration) throws -> RosterSender? {
        let name = name ?? ""
        if !RosterPost.isName(name) {
            throw ValidationError(
                "--name takes at most \(RosterPost.longestName) characters, and not the form of an ID, such as device:1f0a2b3c4d5e6f70."
            )
        }
        if tag.count > RosterPost.mostTags || !tag.allSatisfy(RosterPost.isTag) {
            throw ValidationError(
                "--tag takes at most \(RosterPost.mostTags) tags, each a name, an equals sign and a value without spaces, such as site=Lisbon."
            )
        }
        let sendsErrors = rosterErrors ?? "yes"
        guard ["yes", "no"].contains(sendsErrors) else {
            throw ValidationError("--roster-errors takes yes or no, not \(UntrustedName.display(sendsErrors)).")
        }
        guard let text = roster else { return nil }
        let url = try FlagValue.url(text, of: "roster")
        if url.isFile { throw ValidationError("--roster takes an http or https address, not a file.") }
        let places = try Wiring.places(update)
        let store = configuration.device.store
        let interval = configuration.polling?.pace.interval ?? .seconds(900)
        let identity = RosterIdentity(
            name: name, deviceId: update.deviceId, followsChannel: places.feed?.isChannel == true,
            program: Product.version, interval: RosterSender.interval(ofChecks: interval), tags: tag,
            sendsErrors: sendsErrors == "yes")
        let findings = try Wiring.localDoctor(update, device: configuration.device)
        return RosterSender(
            store: store, identity, to: url, by: try Wiring.fetcher(update.network, reportingOf: places, store: store),
            windows: configuration.activation, findings: findings)
    }

    /// Logs a failure of the roster. The caller continues.
    static func note(_ error: any Error) {
        Output.warn("the roster was not updated: \(UpdateFailure(error).message)")
    }
}

extension RosterSender {
    private static let onceTimeout = Duration.seconds(5)

    /// Makes one attempt of at most 5 s after a check with this failure, and logs its own failure.
    func sendOnce(after failure: UpdateFailure? = nil) async {
        noteCheck(failure)
        do { try await send(within: Self.onceTimeout) } catch { RosterOptions.note(error) }
    }
}

/// The flags of a host with a roster.
struct RosterHostOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "List the devices that send their state to /roster in this SQLite database. With --upstream, pass their messages to the roster at this URL.",
            valueName: "file|url"), completion: .file())
    var roster: String?

    @Option(
        help: ArgumentHelp(
            "(required with --roster) File of the operators' bearer tokens for /roster, one per line. Devices must not have them.",
            valueName: "file"), completion: .file())
    var rosterTokenFile: String?

    @Option(
        help: ArgumentHelp(
            "File with the names of all devices that should be in the roster, one per line. It shows those that sent nothing as never seen.",
            valueName: "file"), completion: .file())
    var expect: String?

    @Flag(
        help:
            "Keep the last picture of each device's screen and that of its last failed start. Without this flag, the host refuses pictures, and removes those in the file."
    )
    var rosterPictures = false
}
