import ArgumentParser
import BundlePublish
import BundleValues
import CLibrary

/// The folder in which a publisher stores the last file that it signed for each channel.
struct PublisherStateOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Folder that stores the last signed channel files; none to store nothing. (default: clientctl in $XDG_STATE_HOME or ~/.local/state)",
            valueName: "folder|none"), completion: .directory)
    var publisherState: String?

    @Flag(
        help:
            "Continue from the channel file in the feed although a later one was signed, such as after the feed was restored from a backup."
    )
    var feedWasRestored = false

    /// Returns the folder and whether a flag or setting names it; nil if nothing is stored.
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

    /// Adds the stored files to `terms`, which compare a channel with them. If the default folder is not writable, it logs a warning and
    /// stores nothing. Throws if a folder that the user named is not writable.
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
            Output.warn(
                "signed channel files are not stored, so an older file in the feed is not detected. Give --expect-sequence, "
                    + "or --publisher-state with a writable folder. \(UpdateFailure(error).message)")
        }
    }
}
