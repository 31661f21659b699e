import ArgumentParser
import BundleCore
import BundleDisk
import BundleValues
import BundleShell

/// `clientctl events`.
struct Events: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "events",
        abstract: "Follow a store: print one JSON object for each event, until stopped.",
        discussion: """
            Shells and monitors can use this command instead of polling. The first line is
            the current state. Each later line is one event: installed, removed, launched,
            confirmed, failed, blocked, unblocked, selected (the client to launch next),
            waiting (an offer waits for its download), channel, locked, unlocked, loggedIn
            or loggedOut. If one change follows another closely, the state between them
            can be missing.

            Example:
              clientctl events --store /var/lib/clientctl
            """)

    @OptionGroup var place: StoreOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let store = try place.required()
        _ = common.json
        let watch = try FolderWatch()
        follow(store, watch: watch)
        var inventory = try Wiring.inventory(store)
        guard Output.giveLine(Self.beginning(inventory)) else { return }
        var (record, time) = (try? Wiring.sessions(store).record(), Timestamp.now)
        while true {
            // Waits at most 1 s, because the kernel may report no change, and the reader of the output may end.
            _ = watch.wait(milliseconds: 1000)
            guard Output.isRead else { return }
            follow(store, watch: watch)
            let next = try Inventory.read(at: store)
            for event in StoreEvent.between(inventory.ledger, and: next.ledger) {
                guard Output.giveLine(Self.describe(event)) else { return }
            }
            inventory = next
            // A record that cannot be read counts as unchanged. `clientctl status` reports the reason.
            guard let newer = try? Wiring.sessions(store).record() else { continue }
            let now = Timestamp.now
            for event in SessionEvent.between(record ?? newer, at: time, newer, at: now) {
                guard Output.giveLine(Self.describe(event)) else { return }
            }
            (record, time) = (newer, now)
        }
    }

    /// Watches the store and its parent, because the store can be created or replaced later.
    private func follow(_ store: String, watch: FolderWatch) {
        watch.watch(parentOf: store)
        do {
            watch.watch(try Directory.open(store))
        } catch {
            // `Inventory.read` reports a store that cannot be opened.
        }
    }

    private static func beginning(_ inventory: Inventory) -> JSONObject {
        let ledger = inventory.ledger
        return [
            "event": .string("state"), "running": .string(orNull: ledger.launch?.name.description),
            "next": .string(ledger.scheduled.description),
            "clients": .array(inventory.bundles.map { .string($0.name.description) }),
        ]
    }

    private static func describe(_ event: StoreEvent) -> JSONObject {
        [
            "event": .string(event.kind.rawValue), "name": .string(orNull: event.name?.description),
            "version": .string(orNull: event.name?.version?.description), "at": .string(orNull: event.at?.description),
            "detail": .string(orNull: event.detail),
        ]
    }

    private static func describe(_ event: SessionEvent) -> JSONObject {
        [
            "event": .string(event.kind.rawValue), "name": .null, "version": .null,
            "at": .string(orNull: event.at?.description), "detail": .string(orNull: event.detail),
        ]
    }
}
