import ArgumentParser
import BundleCore
import BundleDisk
import BundleValues
import ClientShell

/// `clientctl events`.
struct Events: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "events",
        abstract: "Follow a store: print one JSON object for each event, until stopped.",
        discussion: """
            For shells and monitors that would otherwise ask again and again. The first
            line says how things are; each later line is one event: installed, removed,
            launched, confirmed, failed, blocked, unblocked, selected (what is launched
            next), channel, locked, unlocked, loggedIn or loggedOut. If two changes follow
            closely, a state between them may be left out.

            Example:
              clientctl events --store /var/lib/clientctl
            """)

    @OptionGroup var place: StoreOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let store = try settings.required("store", place.store)
        _ = try settings.isOn("json", common.json)
        let watch = try FolderWatch()
        follow(store, watch)
        var inventory = try Inventory.read(at: store)
        guard Output.giveLine(Self.beginning(inventory)) else { return }
        var (record, time) = (try? Wiring.sessions(store).record(), Timestamp.now)
        while true {
            // Not for ever: the kernel may tell nothing, and the reader may go.
            _ = watch.wait(milliseconds: 1000)
            guard Output.isRead else { return }
            follow(store, watch)
            let next = try Inventory.read(at: store)
            for event in StoreEvent.between(inventory.ledger, next.ledger) {
                guard Output.giveLine(Self.describe(event)) else { return }
            }
            inventory = next
            // One that cannot be read has not changed: `status` reports why.
            guard let newer = try? Wiring.sessions(store).record() else { continue }
            let now = Timestamp.now
            for event in SessionEvent.between(record ?? newer, at: time, newer, at: now) {
                guard Output.giveLine(Self.describe(event)) else { return }
            }
            (record, time) = (newer, now)
        }
    }

    /// The store may come later, and another folder may take its place.
    private func follow(_ store: String, _ watch: FolderWatch) {
        watch.watch(parentOf: store)
        do {
            watch.watch(try Directory.open(store))
        } catch {
            // Reading it says what is wrong with it, if anything is.
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
