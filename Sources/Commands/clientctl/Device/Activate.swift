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

            With --or-discard, a client that is rolled back, or has no verdict within
            --wait, is blocked as by `clientctl rollback --of`. So no later start of the
            device shows a release whose deployment has failed.

            The exit status is 0 if the client runs and has confirmed its start, 3 if no
            client is ready or there is no verdict within --wait, 40 if the client was
            rolled back, and 41 if it is blocked.

            Examples:
              clientctl activate --store /var/lib/clientctl
              clientctl activate --store /var/lib/clientctl --version 1.5.0 --wait 5m
              clientctl activate --store /var/lib/clientctl --version 1.5.0 --or-discard
            """)

    @OptionGroup var place: StoreOptions

    @Option(
        help: ArgumentHelp("Client to show (default: the next client).", valueName: "version"), completion: .versions)
    var version: String?

    @Option(help: ArgumentHelp("Longest wait for the verdict (default: 15m).", valueName: "duration"))
    var wait: String?

    @Flag(help: "Show the client even if the page is busy.")
    var now = false

    @Flag(help: "Block the client if it is rolled back, or has no verdict.")
    var orDiscard = false

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let store = try place.required()
        let limit = try FlagValue.duration(wait ?? "15m", of: "wait")
        let inventory = try Wiring.inventory(store)
        let named = try version.map { text in
            try FlagValue.parsed(text, of: "version") { try ClientReference($0).resolve(among: inventory.knownNames) }
        }
        switch ActivationRule.start(inventory, showing: named) {
        case .ended(let client, let ending): try give(ending, of: client, store)
        case .request(let rule):
            let request = try ActivationFile(store: store).hold(ActivationRequest(rule.client, waitsForBusyPages: !now))
            let end = SuspendingClock().now + limit
            var inventory = inventory
            while rule.ending(inventory) == nil, SuspendingClock().now < end {
                try await Task.sleep(for: Self.interval)
                inventory = try Wiring.inventory(store)
            }
            request.end()
            if let ending = rule.ending(inventory) { return try give(ending, of: rule.client, store) }
            give(
                "waiting", of: rule.client, discarded: try discard(rule.client, store),
                line: "no verdict within \(DurationText(limit)): \(rule.delay(inventory))")
            throw ExitCode(ExitTable.nothingToDo)
        }
    }

    /// Blocks `client` with `--or-discard`, and returns the client that is shown instead; nil if nothing was changed.
    private func discard(_ client: ClientName?, _ store: String) throws -> ClientName? {
        guard orDiscard, let client, client != .embedded else { return nil }
        let verdicts = try Verdicts(store: store, environment: .command)
        guard case .back(let target, let blocked) = try verdicts.rollBack(to: nil, of: client), blocked.contains(client)
        else { return nil }
        return target
    }

    private func give(_ ending: ActivationRule.ActivationEnding, of client: ClientName?, _ store: String) throws {
        let name = client.map(\.description) ?? "the client"
        switch ending {
        case .confirmed: give("confirmed", of: client, line: "\(name) runs and has confirmed its start")
        case .nothingReady(let reason):
            give("nothingReady", of: client, line: "nothing is ready: \(reason)")
            throw ExitCode(ExitTable.nothingToDo)
        case .rolledBack(let reason):
            let discarded = try discard(client, store)
            let sequel = discarded.map { " \(Self.sequel(name, $0))" } ?? ""
            throw FailureWithOutput(
                failure: UpdateFailure(
                    .healthFailed, subject: name, "\(name) was rolled back: \(reason).\(sequel)"),
                members: Self.members("rolledBack", of: client, discarded: discarded))
        case .blocked(let reason):
            throw FailureWithOutput(
                failure: UpdateFailure(
                    .versionBlocked, subject: name,
                    "\(name) must not run, because \(reason). See `clientctl status`."),
                members: Self.members("blocked", of: client))
        }
    }

    private static func sequel(_ name: String, _ next: ClientName) -> String {
        "\(name) is blocked until `clientctl unblock`, and \(next) is next."
    }

    private static func members(
        _ outcome: String, of client: ClientName?, discarded: ClientName? = nil
    ) -> JSONObject {
        [
            "outcome": .string(outcome), "version": .string(orNull: client?.shortDescription),
            "discarded": .bool(discarded != nil),
        ]
    }

    private func give(_ outcome: String, of client: ClientName?, discarded: ClientName? = nil, line: String) {
        let sequel = discarded.map { Self.sequel(client?.description ?? "", $0) }
        var object = Self.members(outcome, of: client, discarded: discarded)
        object["reason"] = outcome == "confirmed" ? .null : .string(line)
        Output.give(json: common.json, afterChange: true, object, lines: [line] + (sequel.map { [$0] } ?? []))
    }
}
