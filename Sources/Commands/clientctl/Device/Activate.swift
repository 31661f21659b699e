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
        let store = try place.required()
        let limit = try FlagValue.duration(wait ?? "15m", of: "wait")
        let inventory = try Wiring.inventory(store)
        let named = try version.map { text in
            try FlagValue.parsed(text, of: "version") { try ClientReference($0).resolve(among: inventory.knownNames) }
        }
        switch ActivationRule.start(inventory, showing: named) {
        case .ended(let client, let ending): try Self.give(ending, of: client, json: common.json)
        case .request(let rule):
            let request = try ActivationFile(store: store).hold(ActivationRequest(rule.client, waitsForBusyPages: !now))
            let end = SuspendingClock().now + limit
            var inventory = inventory
            while rule.ending(inventory) == nil, SuspendingClock().now < end {
                try await Task.sleep(for: Self.interval)
                inventory = try Wiring.inventory(store)
            }
            request.end()
            if let ending = rule.ending(inventory) { return try Self.give(ending, of: rule.client, json: common.json) }
            Self.give(
                "waiting", of: rule.client, json: common.json,
                line: "no verdict within \(DurationText(limit)): \(rule.delay(inventory))")
            throw ExitCode(ExitTable.nothingToDo)
        }
    }

    private static func give(_ ending: ActivationRule.ActivationEnding, of client: ClientName?, json: Bool) throws {
        let name = client.map(\.description) ?? "the client"
        func failure(_ code: FailureCode, outcome: String, message: String) -> FailureWithOutput {
            FailureWithOutput(
                failure: UpdateFailure(code, subject: name, message), members: members(outcome, of: client))
        }
        switch ending {
        case .confirmed: give("confirmed", of: client, json: json, line: "\(name) runs and has confirmed its start")
        case .nothingReady(let reason):
            give("nothingReady", of: client, json: json, line: "nothing is ready: \(reason)")
            throw ExitCode(ExitTable.nothingToDo)
        case .rolledBack(let reason):
            throw failure(.healthFailed, outcome: "rolledBack", message: "\(name) was rolled back: \(reason).")
        case .blocked(let reason):
            throw failure(
                .versionBlocked, outcome: "blocked",
                message: "\(name) must not run, because \(reason). See `clientctl status`.")
        }
    }

    private static func members(_ outcome: String, of client: ClientName?) -> JSONObject {
        ["outcome": .string(outcome), "version": .string(orNull: client?.shortDescription)]
    }

    private static func give(_ outcome: String, of client: ClientName?, json: Bool, line: String) {
        var object = members(outcome, of: client)
        object["reason"] = outcome == "confirmed" ? .null : .string(line)
        Output.give(json: json, afterChange: true, object, lines: [line])
    }
}
