import ArgumentParser
import BundleValues
import BundleShell

/// `clientctl screen`.
struct ScreenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "screen",
        abstract: "Lock or unlock the screen of a device.",
        discussion: """
            Examples:
              clientctl screen lock --store /var/lib/clientctl --maintenance
              clientctl screen unlock --store /var/lib/clientctl
            """,
        subcommands: [ScreenLock.self, ScreenUnlock.self])
}

/// `clientctl screen lock`.
struct ScreenLock: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Lock a device. `serve` then only shows that it is locked.",
        discussion: """
            A locked device still installs updates. `clientctl screen unlock` unlocks it.

            Examples:
              clientctl screen lock --store /var/lib/clientctl
              clientctl screen lock --store /var/lib/clientctl --maintenance
            """)

    @OptionGroup var place: StoreOptions

    @Flag(help: "Show that the device is locked for maintenance.")
    var maintenance = false

    @Flag(help: "Create the store if the path does not exist.")
    var create = false

    @OptionGroup var common: CommonOptions

    func run() throws {
        let store = try place.required()
        let lock: SessionLock = maintenance ? .forMaintenance : .byOperator
        let record = try Wiring.changingSessions(store, creates: create) { try $0.change { $0.lock(lock) } }
        SessionOutput(record, at: .now).give(
            "locked", json: common.json, lines: [lock == .forMaintenance ? "locked for maintenance" : "locked"])
    }
}

/// `clientctl screen unlock`.
struct ScreenUnlock: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlock",
        abstract: "Unlock a device. It then shows the client that its session allows.",
        discussion: """
            Example:
              clientctl screen unlock --store /var/lib/clientctl
            """)

    @OptionGroup var place: StoreOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let store = try place.required()
        let record = try Wiring.changingSessions(store) { try $0.change { $0.unlock() } }
        SessionOutput(record, at: .now).give("unlocked", json: common.json, lines: ["unlocked"])
    }
}
