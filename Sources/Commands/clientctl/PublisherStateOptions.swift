import ArgumentParser
import BundlePublish
import BundleValues
import Glibc

/// Where a publisher stores what it signed last.
struct PublisherStateOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Folder that stores what was signed last, by default clientctl in $XDG_STATE_HOME or ~/.local/state; none for nothing.",
            valueName: "folder|none"), completion: .directory)
    var publisherState: String?

    @Flag(help: "The feed was restored from a backup: build on its document, though a later one was signed.")
    var feedWasRestored = false

    /// The folder; nil if nothing is stored.
    func folder(_ settings: Settings) throws -> (path: String, isGiven: Bool)? {
        if let given = try settings.optional("publisher-state", publisherState) {
            return given == "none" ? nil : (given, true)
        }
        if let state = Self.environment("XDG_STATE_HOME") { return ("\(state)/clientctl", false) }
        return Self.environment("HOME").map { ("\($0)/.local/state/clientctl", false) }
    }

    private static func environment(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// Fills in what `terms` compare a channel with. A default folder that cannot be written to is reported, and nothing is stored.
    func fill(_ terms: inout ChannelTerms, _ settings: Settings) throws {
        terms.isFeedRestored = try settings.isOn("feed-was-restored", feedWasRestored)
        guard let (path, isGiven) = try folder(settings) else { return }
        let memory = PublisherMemory(path)
        do {
            if !terms.isDryRun { try memory.prepare() }
            terms.memory = memory
        } catch let failure as UpdateFailure {
            throw failure
        } catch  where isGiven {
            throw error
        } catch {
            Output.say(
                "clientctl: what is signed is not remembered, so an older document in the feed goes unnoticed. Give --expect-sequence, or "
                    + "--publisher-state with a folder that can be written to. \(UpdateFailure(error).message)")
        }
    }
}
