package import BundleValues

/// Verifies the documents of a feed with the trust of a device, at the trusted time.
package struct FeedVerifier: Sendable {
    private let trust: CurrentTrust
    private let appId: String?
    private let clock: Timestamp
    /// The trusted time, which is not earlier than any signed time that the device has seen.
    package let time: Timestamp

    /// Creates a verifier for the application `appId` (nil for any), on a machine whose clock reports `clock`.
    package init(_ trust: CurrentTrust, of appId: String?, knowing memory: FeedMemory, clock: Timestamp) {
        self.trust = trust
        self.appId = appId
        self.clock = clock
        var seen = memory
        seen.clock = trust.clock(memory)
        time = TrustedTime.at(clock, knowing: seen)
    }

    /// Returns the manifest if a current trust root allows its signers to sign releases of its kind.
    package func verify(_ manifest: UnverifiedManifest) throws -> VerifiedManifest {
        try trust.requireFresh(at: time, clock: clock)
        return try ManifestVerifier.verify(manifest, trusted: trust.keys(for: manifest.claims.kind.role, at: time))
    }

    /// Returns the channel document if channel keys of a current trust root signed it and it is for the channel `name`
    /// and the device's application.
    package func verify(_ envelope: SignedEnvelope, channel name: String) throws -> VerifiedChannelDocument {
        try trust.requireFresh(at: time, clock: clock)
        let verified = try ChannelVerifier.verify(
            envelope, channel: name, trusted: trust.keys(for: .channel, at: time))
        try requireApp(of: verified.document)
        return verified
    }

    /// Returns the hold if guard keys signed it and it is for the channel `name`.
    package func verify(hold bytes: [UInt8], channel name: String) throws -> VerifiedHold {
        try HoldVerifier.verify(
            try HoldFormat.envelope(parsing: bytes), channel: name, trusted: trust.keys(for: .guard, at: time))
    }

    private func requireApp(of document: ChannelDocument) throws {
        guard let appId, WrongApplication(of: document.appId, on: appId) != nil else { return }
        throw UpdateFailure(
            .appMismatch, subject: document.appId ?? "",
            "The channel document is for \(document.appId ?? "no named application"), but this device runs \(appId): "
                + "check the address of the feed.")
    }
}

/// A document of an application that is not the device's.
package struct WrongApplication: Sendable, Equatable {
    package let expected: String
    package let found: String?

    package init(expected: String, found: String?) {
        self.expected = expected
        self.found = found
    }

    /// Returns nil if `found` is the application of the device, or if the device accepts every one.
    package init?(of found: String?, on device: String?) {
        guard let device, found.map({ $0.utf8.elementsEqual(device.utf8) }) != true else { return nil }
        self.init(expected: device, found: found)
    }

    /// Returns the refusal of the release `version`.
    package func failure(of version: ClientVersion) -> UpdateFailure {
        guard let found else {
            return UpdateFailure(
                .appMismatch, subject: "",
                "Version \(version) names no application, and this device runs \(expected): it was published without --app-id. "
                    + "Wait for a release that names it.")
        }
        return UpdateFailure(
            .appMismatch, subject: found,
            "Version \(version) is for \(found), and this device runs \(expected): check the feed's address. Another application "
                + "needs another store (--store).")
    }
}
