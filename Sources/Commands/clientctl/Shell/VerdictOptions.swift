import BundleValues
import ArgumentParser
import BundleCore
import BundleShell

/// The flags of a verdict about a launch, for `confirm` and `fail`.
struct VerdictOptions: ParsableArguments {
    @OptionGroup var place: StoreOptions

    @OptionGroup var version: VersionOption

    @Option(
        help: ArgumentHelp(
            "(required) Token of the launch. Set CLIENTCTL_TOKEN instead to keep it out of the list of processes.",
            valueName: "token"))
    var token: String?

    @OptionGroup var common: CommonOptions

    /// Returns the verdicts of the store, and the client and token of the launch.
    func launch() throws -> (verdicts: Verdicts, name: ClientName, token: LaunchToken) {
        let version = try version.required()
        let store = try place.required()
        let token = LaunchToken(text: try FlagValue.required(token, of: "token"))
        let verdicts = try Verdicts(store: store, environment: .command)
        let inventory = try Inventory.read(at: store)
        // The launched client is preferred to others with the same version.
        let launched = inventory.ledger.launch.map { [$0.name] } ?? []
        let reference = ClientReference(version)
        let name = try FlagValue.parsed(version, of: "version") { _ in
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
            If the release on trial requires endpoints (`publish --requires-endpoint`), the
            command first requests them until each answers with a status below 400. The
            page is not asked, so neither its content security policy nor CORS apply.

            Exits with 27 if the token is from another launch, and with 40 if this launch
            was already rolled back, or if a required endpoint does not answer within
            --startup-timeout: then run `clientctl fail`. Exits with 10 if the device has
            no network: then run the command again, and do not run `clientctl fail`.

            Example:
              clientctl confirm --store /var/lib/clientctl --version 1.5.0 --token 5f2c...
            """)

    @OptionGroup var verdict: VerdictOptions

    @Option(help: .keep) var keep: String?

    @Option(
        help: ArgumentHelp("Time in which required endpoints must answer. (default: 10s)", valueName: "duration"))
    var startupTimeout: String?

    @Option(
        help: ArgumentHelp(
            "Origin of the page, such as http://127.0.0.1:12000/, where required endpoints that are paths are requested. (default: such a path must be a file of the client)",
            valueName: "url"))
    var pageOrigin: String?

    @Flag(help: "Confirm the program that `clientctl run` started, from whose environment this command is run.")
    var program = false

    @OptionGroup var way: WayOptions

    func run() async throws {
        if program { return try confirmProgram() }
        let keep = try FlagValue.keep(keep)
        let timeout = try FlagValue.startupTimeout(startupTimeout)
        let origin = try pageOrigin.map { try FlagValue.url($0, of: "page-origin") }
        let options = try way.fetching()
        let (verdicts, name, token) = try verdict.launch()
        if let endpoints = try verdicts.endpoints(of: name, token) {
            let probe = EndpointProbe(try DeviceContainer.fetcher(options), origin: origin)
            switch await probe.check(endpoints, within: timeout, waitsForNetwork: false) {
            case .passed?: break
            case .failed(let reason)?:
                throw UpdateFailure(
                    .healthFailed, subject: "\(name)",
                    "\(name) is not confirmed: \(reason). Its release requires this address. Run `clientctl fail` with this reason."
                )
            case nil:
                throw UpdateFailure(
                    .networkUnavailable, subject: "\(name)",
                    "\(name) is not confirmed yet: its release requires \(endpoints.addresses.joined(separator: ", ")), and this "
                        + "device has no network. Run the command again when it has one.")
            }
        }
        let wasConfirmed = try verdicts.confirm(name, token)
        let removed = wasConfirmed ? [] : await verdicts.retain(keep)?.removed ?? []
        Output.give(
            json: verdict.common.json, afterChange: true,
            [
                "outcome": .string(wasConfirmed ? "alreadyConfirmed" : "confirmed"),
                "version": .string(name.shortDescription), "removed": .names(removed),
            ],
            lines: ["\(name) is \(wasConfirmed ? "already " : "")confirmed"] + removed.map { "removed \($0)" })
    }
}

extension Confirm {
    private func confirmProgram() throws {
        guard let version = ProgramVariables.runningVersion, let launcher = try ProgramVariables.launcher() else {
            throw ValidationError(
                "--program is for a program that `clientctl run` started, and the variables of none are set.")
        }
        try ProgramVariables.trialToken.map { try launcher.confirm(version, $0) }
        Output.give(
            json: verdict.common.json, afterChange: true,
            [
                "outcome": .string(ProgramVariables.trialToken == nil ? "alreadyConfirmed" : "confirmed"),
                "version": .string(version.description), "removed": .array([]),
            ], lines: ["the program \(version) is confirmed"])
    }
}

/// `clientctl fail`.
struct Fail: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fail",
        abstract: "Report that the launched client does not work, and show what runs next.",
        discussion: """
            After its first failure, the version is tried again when another client has
            run. The second failure blocks the version on this device.

            Example:
              clientctl fail --store /var/lib/clientctl --version 1.5.0 --token 5f2c... \\
                --reason "white screen"
            """)

    @OptionGroup var verdict: VerdictOptions

    @Option(help: ArgumentHelp("Reason of the failure, which `status` shows.", valueName: "text"))
    var reason: String?

    func run() throws {
        let (verdicts, name, token) = try verdict.launch()
        let fall = try verdicts.fail(name, token, StartFailure(.reported, detail: reason ?? "", at: .now))
        Output.give(
            json: verdict.common.json, afterChange: true,
            [
                "outcome": .string(fall.hadFailed ? "alreadyFailed" : "failed"),
                "version": .string(name.shortDescription), "failures": .integer(fall.failures),
                "blocked": .bool(fall.block != nil), "next": .string(orNull: fall.next?.name.description),
            ],
            lines: [
                fall.block.map { "\(name) is blocked: \($0.reason)" }
                    ?? (fall.failures == 0 ? "\(name) failed" : "\(name) failed once, and is retried"),
                fall.next.map { "next: \($0.name), \($0.reason)" } ?? "no other client can be launched",
            ])
    }
}
