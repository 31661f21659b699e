import BundleValues
import ArgumentParser
import BundleCore

/// Which launch a verdict is about.
struct VerdictOptions: ParsableArguments {
    @OptionGroup var place: StoreOptions

    @OptionGroup var version: VersionOption

    @Option(
        help: ArgumentHelp("The launch token; CLIENTCTL_TOKEN keeps it out of the process list.", valueName: "token"))
    var token: String?

    @OptionGroup var common: CommonOptions

    /// The store's verdicts, and the launch that one is about.
    func launch(_ settings: Settings) throws -> (verdicts: Verdicts, name: ClientName, token: LaunchToken) {
        let version = try version.required(settings)
        let store = try settings.required("store", place.store)
        let token = LaunchToken(text: try settings.required("token", token))
        let verdicts = try Verdicts(store: store) { Output.say("clientctl: \($0)") }
        let inventory = try Inventory.read(at: store)
        // What was launched is what is meant, whatever else has the same version.
        let launched = inventory.ledger.launch.map { [$0.name] } ?? []
        let reference = ClientReference(version)
        let name = try settings.parsed("version", version) { _ in
            try launched.first(where: reference.fits) ?? reference.resolve(among: inventory.knownNames)
        }
        return (verdicts, name, token)
    }
}

/// `clientctl confirm`.
struct Confirm: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "confirm",
        abstract: "Confirm that the launched client works, and remove old clients.",
        discussion: """
            Refused (27) with the token of another launch, and (40) where this one was
            rolled back already.

            Example:
              clientctl confirm --store /var/lib/clientctl --version 1.5.0 --token 5f2c...
            """)

    @OptionGroup var verdict: VerdictOptions

    @Option(help: ArgumentHelp("Clients to keep; 3 by default.", valueName: "n"))
    var keep: String?

    func run() async throws {
        let settings = try verdict.common.settings()
        let keep = try settings.keep(keep)
        let (verdicts, name, token) = try verdict.launch(settings)
        let wasConfirmed = try verdicts.confirm(name, token)
        let removed = wasConfirmed ? [] : await verdicts.retain(keep)?.removed ?? []
        Output.give(
            json: try settings.isOn("json", verdict.common.json), afterChange: true,
            [
                "outcome": .string(wasConfirmed ? "alreadyConfirmed" : "confirmed"),
                "version": .string(name.shortDescription), "removed": .names(removed),
            ],
            ["\(name) is \(wasConfirmed ? "already " : "")good"] + removed.map { "removed \($0)" })
    }
}

/// `clientctl fail`.
struct Fail: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fail",
        abstract: "Report that the launched client does not work, and show what runs next.",
        discussion: """
            The first failure is retried once, after another client has run; the second
            blocks the version on this device.

            Example:
              clientctl fail --store /var/lib/clientctl --version 1.5.0 --token 5f2c... \\
                --reason "white screen"
            """)

    @OptionGroup var verdict: VerdictOptions

    @Option(help: ArgumentHelp("What was seen, for `status`.", valueName: "text"))
    var reason: String?

    func run() throws {
        let settings = try verdict.common.settings()
        let (verdicts, name, token) = try verdict.launch(settings)
        let fall = try verdicts.fail(
            name, token, StartFailure(.reported, detail: try settings.optional("reason", reason) ?? "", at: .now))
        Output.give(
            json: try settings.isOn("json", verdict.common.json), afterChange: true,
            [
                "outcome": .string(fall.hadFailed ? "alreadyFailed" : "failed"),
                "version": .string(name.shortDescription), "failures": .integer(fall.failures),
                "blocked": .bool(fall.block != nil), "next": .string(orNull: fall.next?.name.description),
            ],
            [
                fall.block.map { "\(name) is blocked: \($0.reason)" }
                    ?? (fall.failures == 0 ? "\(name) failed" : "\(name) failed once, and is retried"),
                fall.next.map { "next: \($0.name), \($0.reason)" } ?? "nothing else can be launched",
            ])
    }
}
