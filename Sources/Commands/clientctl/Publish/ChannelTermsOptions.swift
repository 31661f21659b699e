import BundleFormats
import ArgumentParser
import BundlePublish
import BundleSigning
import BundleValues
import CLibrary

/// The flags of each new channel file.
struct ChannelTermsOptions: ParsableArguments {
    @Option(help: ArgumentHelp("How long the new channel file is valid. (default: 30d)", valueName: "duration"))
    var expiresIn: String?

    @Option(
        help: ArgumentHelp(
            "Fail unless the current channel file has this sequence; 0 if it does not exist. (required if the publisher state does not have the channel)",
            valueName: "n"))
    var expectSequence: String?

    @Flag(help: "Sign even if the channel expired long ago. Check the clock of this machine first.")
    var acceptClock = false

    @Flag(
        help:
            "Sign without a key of the current channel file or release. Devices that trust only that key refuse everything from then on, recalls included."
    )
    var devicesTrustNewKey = false

    @Option(
        help: ArgumentHelp(
            "Folder that stores the last signed channel files; none to store nothing, which needs --expect-sequence. (default: clientctl in $XDG_STATE_HOME or ~/.local/state)",
            valueName: "folder|none"), completion: .directory)
    var publisherState: String?

    @Flag(
        help:
            "Continue from the channel file in the feed although a later one was signed, such as after the feed was restored from a backup."
    )
    var feedWasRestored = false

    /// Returns the terms of a channel file that `signers` sign and `trust` verifies.
    func terms(signers: [Signer], trust: String?, isDryRun: Bool) throws -> ChannelTerms {
        var terms = ChannelTerms(signers: signers)
        terms.trust = try trust.map(TrustAnchor.read)
        if let duration = try PublishTime.duration(expiresIn, of: "expires-in") { terms.lifetime = duration }
        terms.expectedSequence = try FlagValue.integer(expectSequence, of: "expect-sequence", atLeast: 0)
        terms.requiresComparison = terms.expectedSequence == nil
        terms.isClockAccepted = acceptClock
        terms.devicesTrustNewKey = devicesTrustNewKey
        terms.isDryRun = isDryRun
        try addMemory(to: &terms)
        return terms
    }

    /// The folder, and whether a flag or setting names it; nil if nothing is stored.
    var stateFolder: (path: String, isGiven: Bool)? {
        if let publisherState { return publisherState == "none" ? nil : (publisherState, true) }
        return StateFolder.path.map { ($0, false) }
    }

    /// Adds the stored files to `terms`, which compare a channel with them. If the default folder is not writable, it logs a warning and
    /// stores nothing. Throws if a folder that the user named is not writable.
    private func addMemory(to terms: inout ChannelTerms) throws {
        terms.isFeedRestored = feedWasRestored
        guard let (path, isGiven) = stateFolder else { return }
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

/// The flags for a channel that a command may create.
struct NewChannelOptions: ParsableArguments {
    @Flag(
        help:
            "Create the channel that gets the release if it does not exist. The first channel of a new feed needs no flag."
    )
    var create = false

    @Option(
        help: ArgumentHelp(
            "With --create, the first sequence; use a higher one if the channel file was lost. (default: 1)",
            valueName: "n"))
    var sequence: String?

    /// Returns the first sequence of a new channel; nil without `--create`.
    func firstSequence() throws -> Int? {
        let number = try FlagValue.integer(sequence, of: "sequence", atLeast: 1)
        if create { return number ?? 1 }
        if number != nil {
            throw ValidationError("--sequence sets the first sequence of a new channel: give --create, too.")
        }
        return nil
    }
}
