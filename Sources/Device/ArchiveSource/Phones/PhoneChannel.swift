import BundleCore
package import BundleFormats
import BundleSigning
package import BundleValues

/// A phone, as each of its requests describes it. It has no store.
package struct StatedPhone: Sendable {
    /// The ID that determines the buckets.
    package let id: String
    package let groups: [String]
    /// The version of the app from its store.
    package let shell: SemanticVersion
    /// The release that the phone runs; nil for the files in the app.
    package let running: SemanticVersion?

    package init(id: String, groups: [String], shell: SemanticVersion, running: SemanticVersion?) {
        (self.id, self.groups, self.shell, self.running) = (id, groups, shell, running)
    }

    /// Returns the version of a shell that is written like `1.2.3`, or with one to four numbers, of which the fourth and build
    /// metadata do not count, as in `7` and `1.2.0.44`. Returns nil for any other text.
    package static func shell(_ text: String) -> SemanticVersion? {
        if let version = try? SemanticVersion(parsing: text) { return version }
        let core = text.prefix { $0 != "+" }
        let parts = core.split(separator: ".", omittingEmptySubsequences: false)
        guard (1...4).contains(parts.count),
            parts.allSatisfy({ (1...9).contains($0.utf8.count) && $0.utf8.allSatisfy(\.isASCIIDigit) })
        else { return nil }
        let numbers = parts.prefix(3).compactMap { Int($0) } + [0, 0]
        return try? SemanticVersion(parsing: numbers.prefix(3).map { "\($0)" }.joined(separator: "."))
    }
}

/// What a phone should do, and why.
package enum PhoneVerdict: Sendable, Equatable {
    /// The phone downloads this release and runs it. With `leaving`, it must leave the one that it runs in any case.
    case install(SemanticVersion, leaving: Bool)
    /// There is nothing newer for the phone.
    case upToDate
    /// A newer release exists that the phone may not install now.
    case blocked(ChannelRule.Objection)
    /// The phone must leave the release that it runs, and no other may run: it returns to the files in the app.
    case leave
}

/// A verified channel with its hold, ready to be judged for many phones.
package struct PhoneChannel: Sendable {
    /// The document, with held releases paused.
    package let document: ChannelDocument
    /// The verified manifests.
    package let manifests: [Manifest]
    /// The keys that may sign releases and their bundles.
    package let releaseKeys: TrustedKeys
    /// What the next document of the channel follows.
    package let memory: FeedMemory.ChannelMemory

    private let poll: FeedPoll
    /// The document without the hold, which decides about rollouts.
    private let verified: VerifiedChannelDocument
    private let checks: [SemanticVersion: ChannelRule.SignatureResult]
    private let shells: [SemanticVersion: ShellRange]
    private let appId: String?
    private let floor: Timestamp

    /// Verifies the channel file `bytes` and the file `hold` as `device` would, and each release in it. `known` is the memory of the
    /// former document.
    package init(
        _ bytes: [UInt8], channel name: String, hold: [UInt8]?, on device: NewDevice,
        following known: FeedMemory.ChannelMemory?
    ) throws {
        let verifier = device.verifier
        let request = OfferRequest(inventory: .empty, shell: .zero, appId: nil)
        poll = FeedPoll(device.trust, request, clock: device.clock)
        floor = verifier.time
        verified = try verifier.verify(try ChannelFormat.envelope(parsing: bytes), channel: name)
        document = verified.document.held(by: poll.judge(hold.map(HoldFile.found) ?? .none, of: verified.document).rule)
        appId = device.appId ?? document.appId
        let trusted = poll.trust.keys(for: .channel, at: floor).keys.map(\.id)
        let earlier = known?.counting(trusting: trusted)
        if let failure = FreshnessRule.judge(
            document, payloadSha256: verified.payloadSha256, known: earlier, now: floor
        ).failure(of: document, clock: floor) {
            throw failure
        }
        releaseKeys = poll.trust.keys(for: .release, at: floor)
        var checks: [SemanticVersion: ChannelRule.SignatureResult] = [:]
        var manifests: [Manifest] = []
        for release in document.releases {
            do {
                let manifest = try ManifestVerifier.verify(release.manifest, trusted: releaseKeys)
                checks[release.version] = .verified(manifest)
                manifests.append(manifest.manifest)
            } catch {
                checks[release.version] = .refused(UpdateFailure(error))
            }
        }
        (self.checks, self.manifests) = (checks, manifests)
        shells = Dictionary(
            document.releases.map { ($0.version, $0.manifest.claims.shells) }, uniquingKeysWith: { first, _ in first })
        memory = Self.memory(of: verified, leftOut: []).following(earlier)
    }

    private static func memory(
        of verified: VerifiedChannelDocument, leftOut: [SemanticVersion]
    ) -> FeedMemory.ChannelMemory {
        let document = verified.document
        return FeedMemory.ChannelMemory(
            name: document.channel, sequence: document.sequence, payloadSha256: verified.payloadSha256,
            signers: verified.signers.map(\.id), issuedAt: document.issuedAt, expires: document.expires,
            recalled: document.recalled, reinstated: document.reinstated, minimumVersion: document.minimumVersion,
            leftOut: leftOut, undoneMinimum: document.undoneMinimum)
    }

    /// Returns what `phone` should do at `now`. Throws `expired` if the document is out of date by then.
    package func judge(_ phone: StatedPhone, at now: Timestamp) throws -> PhoneVerdict {
        let time = max(now, floor)
        if document.expires <= time,
            let failure = FreshnessRule.Freshness.expired(now: time).failure(
                of: document, clock: now)
        {
            throw failure
        }
        let member = try RolloutRule.RolloutDevice(id: phone.id, groups: phone.groups)
        let leftOut = try poll.leftOut(
            by: verified.document, digest: verified.payloadSha256, on: member, at: time)
        var feed = FeedMemory()
        feed.groups = phone.groups
        feed.follow(Self.memory(of: verified, leftOut: leftOut).following(memory))
        let running = try phone.running.map { version in
            BundleIdentity(version: version, shells: try shells[version] ?? ShellRange(minimum: .zero))
        }
        let device = ChannelRule.JudgedDevice(
            inventory: try .stated(running: running, feed: feed), shell: phone.shell, appId: appId)
        return verdict(of: device, runs: running != nil)
    }

    private func verdict(of device: ChannelRule.JudgedDevice, runs: Bool) -> PhoneVerdict {
        let newest = device.newest?.version.semantic
        let candidate = ChannelRule.pick(document.releases, on: device) { release in
            checks[release.version] ?? .refused(Self.unknown(release.version))
        }
        let objection = candidate.flatMap { ChannelRule.objection(to: $0, on: device) }
        if let candidate, objection == nil, newest.map({ candidate.release.version > $0 }) ?? true {
            return .install(candidate.release.version, leaving: runs && newest == nil)
        }
        if runs, newest == nil { return .leave }
        return switch objection?.rule {
        case nil, .recall?, .floor?, .rollout?: .upToDate
        default: objection.map { .blocked($0) } ?? .upToDate
        }
    }

    private static func unknown(_ version: SemanticVersion) -> UpdateFailure {
        UpdateFailure(.internal, subject: version.description, "Version \(version) was not verified. Please report it.")
    }
}
