import BundleFormats
import BundleValues
import BundleSigning

/// Reads, verifies, edits, signs and writes channel files. The caller holds the lock of the feed while it calls
/// `put`.
package struct ChannelWriter {
    static let folder = "channels"

    let location: any FeedLocation
    let options: ChannelTerms

    /// Returns the numbered copy of the channel file `name`. Throws if the trusted keys did not sign it.
    func copy(of name: String, sequence: Int) throws -> VerifiedChannelDocument {
        let path = Self.copyPath(of: name, sequence: sequence)
        guard let record = try location.read(path, maximumBytes: ChannelFormat.maximumBytes) else {
            throw UpdateFailure(
                .configInvalid, subject: "channel \(name)",
                "\(location.address)/\(path) does not exist. `clientctl channel log` lists the copies.")
        }
        return try verified(record.bytes, of: name)
    }

    /// Parses and verifies the channel file of `name` in `bytes`. Throws if the trusted keys did not sign it.
    func verified(_ bytes: [UInt8], of name: String) throws -> VerifiedChannelDocument {
        do {
            let envelope = try ChannelFormat.envelope(parsing: bytes)
            do {
                return try ChannelVerifier.verify(envelope, channel: name, trusted: trusted)
            } catch let failure as UpdateFailure where [.signatureInvalid, .keyUnknown].contains(failure.code) {
                // Damaged bytes have no valid signature either, but their remedy is another one.
                _ = try ChannelFormat.parse(envelope)
                throw UpdateFailure(
                    failure.code, subject: "channel \(name)",
                    failure.code == .keyUnknown
                        ? Self.unknownKeys(of: name, envelope) : "\(failure.message) Nothing was changed.")
            }
        } catch let refusal as DocumentRefusal {
            let file = "\(location.address)/\(Self.path(of: name))"
            throw UpdateFailure(
                .manifestMalformed, subject: file,
                "\(file) is damaged. Restore it from a copy: devices accept nothing older than they have seen. "
                    + UpdateFailure(refusal).message)
        }
    }

    /// The keys that verify the current channel file.
    var trusted: TrustedKeys { options.trust?.keys(for: .channel, at: options.clock) ?? options.signers.trusted }

    private static func unknownKeys(of name: String, _ envelope: SignedEnvelope) -> String {
        let ids = envelope.signatures.compactMap(\.keyId).map { id in
            let shown = UntrustedName.display(id)
            return "\(shown.prefix(12))\(shown.utf8.count > 12 ? "…" : "")"
        }
        let isOne = ids.count == 1
        return "Channel \(name) is signed by \(isOne ? "another key" : "other keys"), \(ids.joined(separator: ", ")). "
            + (isOne
                ? "Sign with that key. If it was replaced, give its public key with --trust."
                : "Sign with those keys. If they were replaced, give their public keys with --trust.")
            + " Nothing was changed."
    }

    /// The first sequence of a channel that may be created; nil if none may be.
    var firstSequence: Int? { options.firstSequence ?? (options.isFeedNew ? 1 : nil) }

    /// Throws if the channel does not exist and may not be created, or if it existed and its file was lost: devices
    /// would refuse the first file as an older one, and new devices would install recalled releases.
    func requireChannel(_ name: String, present: VerifiedChannelDocument?) throws {
        if present != nil { return }
        if let first = firstSequence {
            // The copy of the first channel file is written before the file itself.
            guard let last = try ChannelHistory.sequences(of: name, in: location).max(), last > first else { return }
            throw UpdateFailure(
                .configInvalid, subject: "channel \(name)",
                "The feed has copies of channel \(name) up to sequence \(last), so the channel file was lost. Restore it with "
                    + "`clientctl channel restore`, or recreate it with --sequence \(last + 1) or higher.")
        }
        throw Self.missing(
            name, in: location,
            create:
                "Create it with --create. If its file was lost, restore it, or recreate it with --create and a --sequence above the last "
                + "one: devices reject lower sequences.")
    }

    /// Returns the failure of a command about the channel `name`, which the feed does not have. `create` is the advice
    /// if no other channel has a similar name.
    static func missing(_ name: String, in location: any FeedLocation, create: String) -> UpdateFailure {
        let others = (try? channels(in: location)) ?? []
        let known = others.isEmpty ? "" : "; it has \(others.joined(separator: ", "))"
        let advice =
            SimilarWord.closest(to: name, in: others).map { "Did you mean \($0)? --create creates a new channel." }
            ?? create
        return UpdateFailure(
            .configInvalid, subject: "channel \(name)",
            "The feed \(location.address) has no channel \(name)\(known). \(advice)")
    }

    /// Returns a warning if the caller asked to create a channel that exists.
    func creationWarning(present: VerifiedChannelDocument?) -> String? {
        guard let sequence = present?.document.sequence, options.firstSequence != nil else { return nil }
        return "it already exists, with sequence \(sequence), so --create had no effect"
    }

    /// Returns the path of the channel file of `name` in a feed.
    package static func path(of name: String) -> String { "\(folder)/\(ChannelFileName.file(of: name))" }

    /// Returns the path of the numbered copy of a channel file.
    static func copyPath(of name: String, sequence: Int) -> String { "\(folder)/\(name)/\(sequence).json" }

    /// Returns the channel file of `name`, unverified; nil if the feed has none.
    package static func record(of name: String, in location: any FeedLocation) throws -> FeedRecord? {
        guard ChannelFileName.isName(name) else {
            throw UpdateFailure(
                .usage, subject: "channel",
                "--channel must be a name of 1 to 64 characters from a to z, 0 to 9, dot, dash and underscore, not "
                    + "\(UntrustedName.display(name)).")
        }
        return try location.read(path(of: name), maximumBytes: ChannelFormat.maximumBytes)
    }

    /// Returns the names of the channels in a feed, sorted.
    static func channels(in location: any FeedLocation) throws -> [String] {
        try location.list(folder).map(\.name).sorted().compactMap { path in
            let file = path.dropFirst(folder.utf8.count + 1)
            let name = file.hasSuffix(".json") ? String(file.dropLast(5)) : ""
            return ChannelFileName.isName(name) ? name : nil
        }
    }
}

extension Timestamp {
    func adding(_ duration: Duration) -> Timestamp {
        Timestamp(clamping: secondsSinceEpoch + Int(clamping: duration.components.seconds))
    }
}
