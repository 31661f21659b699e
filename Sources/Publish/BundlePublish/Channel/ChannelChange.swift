package import ArchiveSource
import BundleCore
package import BundleValues

/// One decision about a channel. Pure: documents in, documents out.
package enum ChannelChange: Sendable {
    /// How many devices may have a version, in thousandths.
    case rollout(SemanticVersion, Int)
    /// No further device takes it.
    case pause(SemanticVersion)
    /// Devices take it again.
    case resume(SemanticVersion)
    /// It must not run.
    case revoke(SemanticVersion, reason: String)
    /// It was revoked by mistake.
    case unrevoke(SemanticVersion)
    /// Everything below must not run.
    case revokeBelow(SemanticVersion)
    /// The channel offers it no more; where it runs, it goes on.
    case remove(SemanticVersion)
    /// Devices are to ask so often; nil leaves that to them.
    case poll(ChannelDocument.Poll?)
    /// Nothing but a later expiry.
    case resign

    /// The release that it is about; nil where it is about the channel.
    package var version: SemanticVersion? {
        switch self {
        case .rollout(let version, _), .pause(let version), .resume(let version), .revoke(let version, _),
            .unrevoke(let version), .remove(let version):
            version
        case .revokeBelow, .poll, .resign: nil
        }
    }

    /// Applies the change; says in words what is different then, nothing where the document says so already.
    func apply(to document: inout ChannelDocument) throws -> [String] {
        switch self {
        case .rollout(let version, let permille): try document.setRollout(version, permille)
        case .pause(let version): try document.setPaused(version, true)
        case .resume(let version): try document.setPaused(version, false)
        case .revoke(let version, let reason): document.revoke(version, reason)
        case .unrevoke(let version): try document.unrevoke(version)
        case .revokeBelow(let version): try document.raiseFloor(version)
        case .remove(let version): try document.remove(version)
        case .poll(let poll): document.setPoll(poll)
        case .resign: ["signed anew"]
        }
    }
}

extension ChannelDocument {
    /// Adds a release that is not in it yet.
    mutating func add(
        _ manifest: UnverifiedManifest, rollout: Int?, isPaused: Bool = false
    ) throws -> [String] {
        let version = manifest.claims.version
        try requireSameApp(manifest.claims.appId, version)
        if releases.contains(where: { $0.version == version }) { return [] }
        try requireAllowed(version)
        var release = Release(
            manifest, rollout: rollout ?? Release.everybody, salt: rollout == nil ? "" : version.description)
        release.isPaused = isPaused
        releases.append(release)
        return [
            "\(version) added, for \(Self.share(release.rollout))"
                + (isPaused ? ", paused: no device takes it until it is resumed" : "")
        ]
    }

    fileprivate mutating func setRollout(_ version: SemanticVersion, _ permille: Int) throws -> [String] {
        let index = try index(of: version)
        try requireAllowed(version)
        let before = releases[index].rollout
        if before == permille { return [] }
        releases[index].rollout = permille
        // Drawn by version: each release has its own first devices.
        if releases[index].salt.isEmpty { releases[index].salt = version.description }
        let change = "\(version): for \(Self.share(before)) → \(Self.share(permille))"
        if permille > before { return [change] }
        return ["\(change); \(RolloutShare(permille: before - permille)) go to \(rest(without: version))"]
    }

    /// What every device may have besides `version`, in words.
    private func rest(without version: SemanticVersion) -> String {
        let others = releases.filter { release in
            release.version != version && release.rollout == Release.everybody
                && !revoked.contains { $0.version == release.version }
                && minimumVersion.map { release.version >= $0 } ?? true
        }
        return others.map(\.version).max().map { "\($0), or to what is better for them" }
            ?? "what else they have, or to their seed"
    }

    fileprivate mutating func setPaused(_ version: SemanticVersion, _ isPaused: Bool) throws -> [String] {
        let index = try index(of: version)
        if releases[index].isPaused == isPaused { return [] }
        releases[index].isPaused = isPaused
        return [isPaused ? "\(version): paused, no further device takes it" : "\(version): no longer paused"]
    }

    fileprivate mutating func revoke(_ version: SemanticVersion, _ reason: String) -> [String] {
        let revocation = FeedMemory.Revocation(version: version, reason: reason)
        if revoked.contains(revocation) { return [] }
        revoked.removeAll { $0.version == version }
        revoked.append(revocation)
        return ["\(version): revoked" + (reason.isEmpty ? "" : ", \(reason)")]
    }

    fileprivate mutating func unrevoke(_ version: SemanticVersion) throws -> [String] {
        if !revoked.contains(where: { $0.version == version }) { return [] }
        revoked.removeAll { $0.version == version }
        return ["\(version): no longer revoked"]
    }

    fileprivate mutating func raiseFloor(_ version: SemanticVersion) throws -> [String] {
        if let floor = minimumVersion {
            if floor == version { return [] }
            if version < floor {
                throw UpdateFailure(
                    .rollbackAttempt, subject: version.description,
                    "Channel \(channel) allows nothing below \(floor), and devices never let that go down to \(version)."
                )
            }
        }
        let recalled = revoked.map(\.version)
        guard releases.contains(where: { $0.version >= version && !recalled.contains($0.version) }) else {
            throw UpdateFailure(
                .configInvalid, subject: version.description,
                "Channel \(channel) has no release from \(version) on that may run: devices would be left without any, for "
                    + "good. Publish or promote one first.")
        }
        minimumVersion = version
        return ["nothing below \(version) may run"]
    }

    fileprivate mutating func remove(_ version: SemanticVersion) throws -> [String] {
        releases.remove(at: try index(of: version))
        return ["\(version): no longer in the channel"]
    }

    fileprivate mutating func setPoll(_ poll: Poll?) -> [String] {
        if self.poll == poll { return [] }
        self.poll = poll
        return [Self.words(poll)]
    }

    /// How often devices ask, in words.
    package static func words(_ poll: Poll?) -> String {
        guard let poll else { return "devices check as often as they are set to" }
        let interval = DurationText(.seconds(poll.interval))
        return "devices check every \(interval), and up to \(DurationText(.seconds(poll.jitter))) later"
    }

    // MARK: What is asked first

    package func index(of version: SemanticVersion) throws -> Int {
        if let index = releases.firstIndex(where: { $0.version == version }) { return index }
        let known = releases.isEmpty ? "none" : releases.map(\.version.description).joined(separator: ", ")
        throw UpdateFailure(
            .configInvalid, subject: version.description,
            "Channel \(channel) has no release \(version), it has \(known): name one of these, or publish or promote it first."
        )
    }

    /// Refuses a version that devices may not run.
    func requireAllowed(_ version: SemanticVersion) throws {
        if let revocation = revoked.first(where: { $0.version == version }) {
            throw UpdateFailure(
                .versionBlocked, subject: version.description,
                "Version \(version) is revoked in channel \(channel)"
                    + (revocation.reason.isEmpty ? "" : " (\(UntrustedName.display(revocation.reason)))")
                    + ": publish a higher one, or take that back with `clientctl release revoke --version \(version) --undo`."
            )
        }
        if let floor = minimumVersion, version < floor {
            throw UpdateFailure(
                .versionBlocked, subject: version.description,
                "Channel \(channel) allows nothing below \(floor), so not \(version): publish a higher one.")
        }
    }

    private func requireSameApp(_ appId: String?, _ version: SemanticVersion) throws {
        if appId.map({ Array($0.utf8) }) == self.appId.map({ Array($0.utf8) }) { return }
        throw UpdateFailure(
            .appMismatch, subject: appId ?? "",
            "Version \(version) is for \(appId ?? "no named application"), channel \(channel) for "
                + "\(self.appId ?? "none"): check --app-id and --feed; each application has a feed of its own.")
    }

    static func share(_ permille: Int) -> String {
        permille == Release.everybody ? "every device" : "\(RolloutShare(permille: permille)) of the devices"
    }
}
