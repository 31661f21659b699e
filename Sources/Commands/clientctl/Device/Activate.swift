import ArgumentParser
import BundleCore
import BundleDisk
import BundleValues

/// `clientctl activate`.
struct Activate: AsyncParsableCommand {
    private static let interval = Duration.milliseconds(200)

    static let configuration = CommandConfiguration(
        commandName: "activate",
        abstract: "Show the client that is ready, and wait for its verdict.",
        discussion: """
            The `clientctl serve` of the store shows the client within a second, also
            outside its activation windows. The command ends when the page has confirmed
            its start or is rolled back. An updater for the whole device, such as Mender,
            SWUpdate or RAUC, runs it after `clientctl install`. Its deployment then
            succeeds only if the client works.

            A busy page delays the change for as long as its channel allows. The request
            ends with this command. A second command on the same store fails while the
            first one waits.

            The exit status is 0 if the client runs and has confirmed its start, 3 if no
            client is ready or there is no verdict within --wait, 40 if the client was
            rolled back, and 41 if it is blocked.

            Examples:
              clientctl activate --store /var/lib/clientctl
              clientctl activate --store /var/lib/clientctl --version 1.5.0 --wait 5m
            """)

    @OptionGroup var place: StoreOptions

    @Option(help: ArgumentHelp("Client to show (default: the next client).", valueName: "version"))
    var version: String?

    @Option(help: ArgumentHelp("Longest wait for the verdict (default: 15m).", valueName: "duration"))
    var wait: String?

    @Flag(help: "Show the client even if the page is busy.")
    var now = false

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.settings()
        let store = try settings.required("store", place.store)
        let limit = try settings.parsed("wait", settings.optional("wait", wait) ?? "15m") {
            try DurationText(parsing: $0).duration
        }
        let ignoresBusyPages = try settings.isOn("now", now)
        let json = try settings.isOn("json", common.json)
        let inventory = try Wiring.inventory(store)
        let named = try settings.optional("version", version).map { text in
            try settings.parsed("version", text) { try ClientReference($0).resolve(among: inventory.knownNames) }
        }
        switch ActivationRule.start(inventory, showing: named) {
        case .ended(let client, let ending): try Self.give(ending, client, json: json)
        case .request(let rule):
            let request = try ActivationFile(store: store)
                .hold(ActivationRequest(rule.client, waitsForBusyPages: !ignoresBusyPages))
            let end = SuspendingClock().now + limit
            var inventory = inventory
            while rule.ending(inventory) == nil, SuspendingClock().now < end {
                try await Task.sleep(for: Self.interval)
                inventory = try Wiring.inventory(store)
            }
            request.end()
            if let ending = rule.ending(inventory) { return try Self.give(ending, rule.client, json: json) }
            Self.give(
                "waiting", rule.client, json: json, "no verdict within \(DurationText(limit)): \(rule.delay(inventory))"
            )
            throw ExitCode(ExitTable.nothingToDo)
        }
    }

    private static func give(_ ending: ActivationRule.ActivationEnding, _ client: ClientName?, json: Bool) throws {
        let name = client.map(\.description) ?? "the client"
        func failure(_ code: FailureCode, _ outcome: String, _ message: String) -> FailureWithOutput {
            FailureWithOutput(
                failure: UpdateFailure(code, subject: name, message), members: members(outcome, client))
        }
        switch ending {
        case .confirmed: give("confirmed", client, json: json, "\(name) runs and has confirmed its start")
        case .nothingReady(let reason):
            give("nothingReady", client, json: json, "nothing is ready: \(reason)")
            throw ExitCode(ExitTable.nothingToDo)
        case .rolledBack(let reason): throw failure(.healthFailed, "rolledBack", "\(name) was rolled back: \(reason).")
        case .blocked(let reason):
            throw failure(
                .versionBlocked, "blocked", "\(name) must not run, because \(reason). See `clientctl status`.")
        }
    }

    private static func members(_ outcome: String, _ client: ClientName?) -> JSONObject {
        ["outcome": .string(outcome), "version": .string(orNull: client?.shortDescription)]
    }

    private static func give(_ outcome: String, _ client: ClientName?, json: Bool, _ line: String) {
        var object = members(outcome, client)
        object["reason"] = outcome == "confirmed" ? .null : .string(line)
        Output.give(json: json, afterChange: true, object, [line])
    }
}
