package import BundleCore
import BundleSigning
package import BundleValues

/// The offer of a feed to a device: a verified release, or the best candidate of a channel.
package struct ArchiveOffer: UpdateOffer {
    /// The offered version; for an empty channel, the newest installed one.
    package let clientVersion: ClientVersion
    /// The passed checks before the rules: signatures, application, channel, sequence and expiry.
    package let evidence: [Decision.Outcome]
    /// The change of the memory; nil if there is none.
    package let feed: FeedUpdate?
    /// The keys that may sign releases.
    let releaseKeys: TrustedKeys
    private let content: Content

    private enum Content {
        /// `appId` is the application that the manifest must name, if the trust root states one.
        case manifest(VerifiedManifest, appId: String?)
        case channel(ChannelOffer)
    }

    init(
        _ manifest: VerifiedManifest, of appId: String?, evidence: [Decision.Outcome], feed: FeedUpdate?,
        releaseKeys: TrustedKeys
    ) {
        self.releaseKeys = releaseKeys
        clientVersion = manifest.clientVersion
        self.evidence = evidence + manifest.evidence
        self.feed = feed
        content = .manifest(manifest, appId: appId)
    }

    init(_ channel: ChannelOffer, evidence: [Decision.Outcome], feed: FeedUpdate, in inventory: Inventory) {
        let newest = inventory.bundles.last { $0.version.source == .archive }?.version.semantic
        let version = channel.candidate?.release.version ?? newest ?? .zero
        clientVersion = .archive(version)
        self.evidence = evidence
        self.feed = feed
        releaseKeys = channel.releaseKeys
        content = .channel(channel)
    }

    /// The verified release, if there is one.
    package var release: VerifiedManifest? {
        switch content {
        case .manifest(let manifest, _): return manifest
        case .channel(let channel):
            guard case .verified(let manifest)? = channel.candidate?.signed else { return nil }
            return manifest
        }
    }

    package var appId: String? { release?.appId }

    /// The sizes that the release states.
    package var footprint: Footprint {
        release?.footprint ?? Footprint(downloadBytes: nil, installedBytes: nil, fileCount: nil)
    }

    /// The poll interval from the channel document.
    package var pace: PollPace? {
        guard case .channel(let channel) = content else { return nil }
        return channel.document.poll.map { PollPace(asked: $0.interval, jitter: $0.jitter) }
    }

    /// The conditions of the channel for the download of this release.
    package var terms: FetchTerms {
        guard case .channel(let channel) = content else { return FetchTerms() }
        return FetchTerms(channel.document.network, isUrgent: channel.candidate?.release.isUrgent ?? false)
    }

    func requireRelease() throws -> VerifiedManifest {
        if let release { return release }
        throw UpdateFailure(
            .signatureInvalid, subject: clientVersion.description,
            "Version \(clientVersion) does not have a valid signature: sign the release again.")
    }

    func decide(_ inventory: Inventory, shell: SemanticVersion, appId: String?) -> Decision {
        switch content {
        case .manifest(let manifest, let named):
            AcceptanceRule.decide(manifest, inventory: inventory, shell: shell, appId: appId ?? named)
        case .channel(let channel):
            channel.decide(channel.device(with: inventory, shell: shell, appId: appId))
        }
    }

    func explain(_ inventory: Inventory, shell: SemanticVersion, appId: String?) -> [Decision.Outcome] {
        guard case .channel(let channel) = content else { return [] }
        return channel.explain(channel.device(with: inventory, shell: shell, appId: appId))
    }
}

/// An accepted channel document, with the release to offer to the device.
struct ChannelOffer: Sendable {
    let document: ChannelDocument
    let releaseKeys: TrustedKeys
    private let kind: ReleaseKind
    let appId: String?
    let candidate: ChannelRule.Candidate?
    private let unknownHold: UpdateFailure?

    init(
        _ document: ChannelDocument, of kind: ReleaseKind, releaseKeys: TrustedKeys, on device: ChannelRule.JudgedDevice
    ) {
        self.document = document
        self.kind = kind
        self.releaseKeys = releaseKeys
        (appId, unknownHold) = (device.appId, device.unknownHold)
        candidate = ChannelRule.pick(document.releases, on: device) {
            Self.check($0, of: kind, with: releaseKeys)
        }
    }

    private static func check(
        _ release: ChannelDocument.Release, of kind: ReleaseKind, with keys: TrustedKeys
    ) -> ChannelRule.SignatureResult {
        do {
            let verified = try ManifestVerifier.verify(release.manifest, trusted: keys)
            try verified.require(kind)
            return .verified(verified)
        } catch {
            return .refused(UpdateFailure(error))
        }
    }

    func device(with inventory: Inventory, shell: SemanticVersion, appId: String?) -> ChannelRule.JudgedDevice {
        ChannelRule.JudgedDevice(
            inventory: inventory, shell: shell, appId: appId ?? self.appId, unknownHold: unknownHold)
    }

    func neededShell(_ device: ChannelRule.JudgedDevice) -> SemanticVersion? {
        ChannelRule.neededShell(document.releases, on: device) {
            Self.check($0, of: kind, with: releaseKeys)
        }
    }

    func decide(_ device: ChannelRule.JudgedDevice) -> Decision {
        guard let candidate else {
            let newest = SelectionRule.newestUsable(device.inventory, shell: device.shell)?.name ?? .embedded
            return Decision(
                verdict: .upToDate(newest: newest),
                outcomes: [
                    Decision.Outcome(rule: "newer", passed: false, detail: "the channel \(document.channel) is empty")
                ])
        }
        return ChannelRule.decide(candidate, on: device)
    }

    func explain(_ device: ChannelRule.JudgedDevice) -> [Decision.Outcome] {
        document.releases.sorted { $0.version > $1.version }.map { release in
            let candidate = ChannelRule.Candidate(release, Self.check(release, of: kind, with: releaseKeys))
            let objection = ChannelRule.objection(to: candidate, on: device)
            return Decision.Outcome(
                rule: "release \(release.version)", passed: objection == nil,
                detail: objection?.reason ?? "it may be installed")
        }
    }
}

/// A release of a flat manifest is an offer itself.
extension VerifiedManifest: ReleaseOffer {
    /// The passed check of the signatures.
    package var evidence: [Decision.Outcome] {
        let keys = signers.map { "\($0.algorithm.rawValue) key \($0.id)" }.joined(separator: ", ")
        return [Decision.Outcome(rule: "signature", passed: true, detail: keys)]
    }
    /// The identity of the installed release.
    var identity: BundleIdentity {
        BundleIdentity(version: manifest.version, shells: manifest.shells, signers: signers.map(\.id))
    }
    /// The sizes that the manifest states.
    package var footprint: Footprint {
        Footprint(
            downloadBytes: manifest.size, installedBytes: manifest.installedSize, fileCount: manifest.fileCount)
    }
}
