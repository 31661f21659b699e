package import BundleFormats
package import BundleValues

/// A change of a channel file.
package enum ChannelChange: Sendable {
    /// The rollout percentage, in thousandths of all devices.
    case rollout(SemanticVersion, Int)
    /// Rollout percentages in thousandths, `every` seconds apart; nil starts at once.
    case ramp(SemanticVersion, steps: [Int], every: Int, from: Timestamp?)
    /// The groups that install the release first, or exclusively if `only`; empty for no groups.
    case groups(SemanticVersion, [String], only: Bool)
    /// Whether devices activate the release as soon as they have it.
    case urgent(SemanticVersion, Bool)
    /// Devices that blocked the release after failed starts try it once more.
    case retry(SemanticVersion)
    /// No further device installs the release, and its ramp stops.
    case pause(SemanticVersion)
    /// Devices install the release again, and its ramp continues.
    case resume(SemanticVersion)
    /// The release is recalled: it must not run.
    case recall(SemanticVersion, reason: String)
    /// The recall is undone.
    case reinstate(SemanticVersion)
    /// Every lower version is recalled.
    case recallBelow(SemanticVersion)
    /// The minimum version, which is named, is undone.
    case undoMinimum(SemanticVersion)
    /// The channel no longer offers the release. Devices that have it keep it.
    case withdraw(SemanticVersion)
    /// The check interval of devices; nil leaves it to them.
    case poll(ChannelDocument.Poll?)
    /// The time for which a busy page may defer an activation, in seconds; nil leaves it to devices.
    case busyLimit(Int?)
    /// The conditions for the downloads of devices.
    case network(NetworkChange)
    /// The file is signed again with a later expiry.
    case renew
    /// Several changes, in this order.
    case all([ChannelChange])

    /// The release that the change is for; nil for a change of the channel.
    package var version: SemanticVersion? {
        switch self {
        case .rollout(let version, _), .pause(let version), .resume(let version), .recall(let version, _),
            .reinstate(let version), .withdraw(let version), .ramp(let version, _, _, _), .groups(let version, _, _),
            .urgent(let version, _), .retry(let version):
            version
        case .recallBelow, .undoMinimum, .poll, .busyLimit, .network, .renew, .all: nil
        }
    }

    /// The release that a resume makes available again; nil for other changes.
    var resumed: SemanticVersion? { if case .resume(let version) = self { version } else { nil } }

    /// Applies the change at `time`. Returns the changes in words; none if the file already contains them.
    func apply(to document: inout ChannelDocument, at time: Timestamp) throws -> [String] {
        switch self {
        case .rollout(let version, let permille): try document.setRollout(version, to: permille, at: time)
        case .ramp(let version, let steps, let seconds, let start):
            try document.setRamp(version, to: steps, every: seconds, from: start ?? time, at: time)
        case .groups(let version, let groups, let isOnly): try document.setGroups(version, to: groups, isOnly: isOnly)
        case .urgent(let version, let isUrgent): try document.setUrgent(version, to: isUrgent)
        case .retry(let version): try document.retry(version)
        case .pause(let version): try document.pause(version, at: time)
        case .resume(let version): try document.resume(version, at: time)
        case .recall(let version, let reason): document.recall(version, because: reason)
        case .reinstate(let version): try document.reinstate(version)
        case .recallBelow(let version): try document.raiseFloor(version)
        case .undoMinimum(let version): try document.undoFloor(version)
        case .withdraw(let version): try document.withdraw(version)
        case .poll(let poll): document.setPoll(poll)
        case .busyLimit(let seconds): document.setBusyLimit(seconds)
        case .network(let change): change.apply(to: &document.network)
        case .renew: ["signed again"]
        case .all(let changes): try changes.flatMap { try $0.apply(to: &document, at: time) }
        }
    }
}

extension ChannelDocument {
    /// Adds a release. Returns no changes if the channel already has it.
    mutating func add(_ manifest: UnverifiedManifest, rollout: Int?, isUrgent: Bool = false) throws -> [String] {
        var release = Release(manifest)
        release.isUrgent = isUrgent
        return try add(release, rollout: rollout)
    }

    /// Adds a release of another channel. `rollout` replaces its rollout there.
    mutating func add(_ other: Release, rollout: Int?) throws -> [String] {
        let version = other.version
        try requireSameApp(other.manifest.claims.appId, of: version)
        if releases.contains(where: { $0.version == version }) { return [] }
        try requireAllowed(version)
        var release = other
        if let rollout { (release.rollout, release.ramp) = (rollout, nil) }
        let isForAll = release.rollout == Release.allDevices && rollout == nil && release.ramp == nil
        release.salt = isForAll ? "" : version.description
        releases.append(release)
        return [
            "\(version) added, for \(Self.audience(of: release))" + (release.isUrgent ? ", urgent" : "")
                + (release.isPaused ? ", paused: no device takes it until it is resumed" : "")
        ]
    }

    fileprivate mutating func setRollout(
        _ version: SemanticVersion, to permille: Int, at time: Timestamp
    ) throws -> [String] {
        let index = try index(of: version)
        try requireAllowed(version)
        let before = releases[index]
        if before.ramp == nil, before.rollout == permille { return [] }
        (releases[index].rollout, releases[index].ramp) = (permille, nil)
        useOwnCohort(index)
        return audienceChange(since: before, at: time)
    }

    fileprivate mutating func setRamp(
        _ version: SemanticVersion, to steps: [Int], every seconds: Int, from start: Timestamp, at time: Timestamp
    ) throws -> [String] {
        let index = try index(of: version)
        try requireAllowed(version)
        guard let ramp = Ramp(steps, every: seconds, from: start) else {
            throw UpdateFailure(
                .configInvalid, subject: version.description,
                "A ramp has 1 to \(Ramp.maximumSteps) percentages that rise from 0.1% to 100%, such as 1%,10%,50%,100%, and "
                    + "ends before the year 10000.")
        }
        let before = releases[index]
        let next = before.isPaused ? ramp.holding(at: time) : ramp
        if before.ramp == next { return [] }
        (releases[index].ramp, releases[index].rollout) = (next, Release.allDevices)
        useOwnCohort(index)
        return audienceChange(since: before, at: time)
    }

    fileprivate mutating func setGroups(
        _ version: SemanticVersion, to groups: [String], isOnly: Bool
    ) throws -> [String] {
        let index = try index(of: version)
        try requireAllowed(version)
        let before = releases[index]
        if before.groups == groups, before.isOnlyForGroups == isOnly { return [] }
        (releases[index].groups, releases[index].isOnlyForGroups) = (groups, isOnly)
        return ["\(version): for \(Self.audience(of: before)) → \(Self.audience(of: releases[index]))"]
    }

    fileprivate mutating func setUrgent(_ version: SemanticVersion, to isUrgent: Bool) throws -> [String] {
        let index = try index(of: version)
        if releases[index].isUrgent == isUrgent { return [] }
        releases[index].isUrgent = isUrgent
        return ["\(version): \(Self.words(isUrgent: isUrgent))"]
    }

    fileprivate mutating func retry(_ version: SemanticVersion) throws -> [String] {
        let index = try index(of: version)
        try requireAllowed(version)
        guard releases[index].retries < Release.mostRetries else {
            throw UpdateFailure(
                .configInvalid, subject: version.description,
                "Devices have already retried \(version) \(Release.mostRetries) times, the maximum. Publish the change as a new release."
            )
        }
        releases[index].retries += 1
        return ["\(version): \(Self.words(retries: releases[index].retries))"]
    }

    static func words(retries: Int) -> String { "retry \(retries), devices that blocked it try it once more" }

    static func words(isUrgent: Bool) -> String {
        isUrgent ? "urgent, devices activate it as soon as they have it" : "no longer urgent"
    }

    /// Gives the release a separate cohort, so that different devices come first for each release.
    private mutating func useOwnCohort(_ index: Int) {
        if releases[index].salt.isEmpty { releases[index].salt = releases[index].version.description }
    }

    /// Returns the change of a release's audience in words, and the release to which devices that lose it fall back.
    private func audienceChange(since before: Release, at time: Timestamp) -> [String] {
        let version = before.version
        guard let now = releases.first(where: { $0.version == version }) else { return [] }
        let loss = before.share(at: time) - now.share(at: time)
        return [
            "\(version): for \(Self.audience(of: before)) → \(Self.audience(of: now))"
                + (loss > 0
                    ? "; \(RolloutPercentage(permille: loss)) go back to \(rest(without: version, at: time))" : "")
        ]
    }

    /// Returns in words the versions to which devices go back from `version`.
    private func rest(without version: SemanticVersion, at time: Timestamp) -> String {
        let others = releases.filter { release in
            release.version != version && release.share(at: time) == Release.allDevices
                && !recalled.contains { $0.version == release.version }
                && minimumVersion.map { release.version >= $0 } ?? true
        }
        return others.map(\.version).max().map { "\($0) or a newer version that they may run" }
            ?? "their other installed releases or their seed"
    }

    mutating func pause(_ version: SemanticVersion, at time: Timestamp) throws -> [String] {
        let index = try index(of: version)
        if releases[index].isPaused { return [] }
        releases[index].isPaused = true
        releases[index].ramp = releases[index].ramp?.holding(at: time)
        let share = releases[index].ramp.map { " at \(Self.audience($0.share(at: time)))" } ?? ""
        return ["\(version): paused\(share), no further device takes it"]
    }

    fileprivate mutating func resume(_ version: SemanticVersion, at time: Timestamp) throws -> [String] {
        let index = try index(of: version)
        try requireAllowed(version)
        if !releases[index].isPaused { return [] }
        releases[index].isPaused = false
        releases[index].ramp = releases[index].ramp?.resuming(at: time)
        let rest = releases[index].ramp?.remaining(at: time) ?? []
        return ["\(version): no longer paused" + (rest.isEmpty ? "" : ", \(Ramp.words(rest))")]
    }

    fileprivate mutating func recall(_ version: SemanticVersion, because reason: String) -> [String] {
        let recall = FeedMemory.Recall(version: version, reason: reason)
        if recalled.contains(recall) { return [] }
        recalled.removeAll { $0.version == version }
        recalled.append(recall)
        reinstated.removeAll { $0.version == version }
        return ["\(version): recalled" + (reason.isEmpty ? "" : ", \(reason)")]
    }

    /// Undoes a recall by name, because devices keep a recall that a later file merely omits. A recall that is only
    /// in an earlier file can be undone as well.
    fileprivate mutating func reinstate(_ version: SemanticVersion) throws -> [String] {
        let isRecalled = recalled.contains { $0.version == version }
        if !isRecalled { _ = try index(of: version) }
        if reinstated.contains(where: { $0.version == version }) { return [] }
        recalled.removeAll { $0.version == version }
        let entry = FeedMemory.Reinstatement(version: version, sequence: sequence)
        reinstated = (reinstated + [entry]).suffix(ChannelFormat.mostReinstated)
        let words = isRecalled ? "no longer recalled" : "no longer recalled on any device"
        guard let floor = minimumVersion, version < floor else { return ["\(version): \(words)"] }
        return [
            "\(version): \(words) by name, but still below the minimum \(floor), so no device runs it. To undo the minimum, run "
                + "`clientctl release recall --undo --below \(floor) --channel \(channel)`"
        ]
    }

    fileprivate mutating func raiseFloor(_ version: SemanticVersion) throws -> [String] {
        if let floor = minimumVersion {
            if floor == version { return [] }
            if version < floor {
                throw UpdateFailure(
                    .rollbackAttempt, subject: version.description,
                    "Channel \(channel) requires at least \(floor), which a lower minimum does not change. To lower it, first undo it "
                        + "with `clientctl release recall --undo --below \(floor)`."
                )
            }
        }
        let versions = recalled.map(\.version)
        guard releases.contains(where: { $0.version >= version && !versions.contains($0.version) }) else {
            throw UpdateFailure(
                .configInvalid, subject: version.description,
                "Channel \(channel) has no usable release at or above \(version), so devices would be left without one. "
                    + "Publish or promote one first.")
        }
        minimumVersion = version
        if undoneMinimum.map({ $0 <= version }) == true { undoneMinimum = nil }
        reinstated.removeAll { $0.version < version }
        return ["nothing below \(version) may run"]
    }

    fileprivate mutating func undoFloor(_ version: SemanticVersion) throws -> [String] {
        if minimumVersion == nil, undoneMinimum == version { return [] }
        guard minimumVersion == version else {
            let present =
                minimumVersion.map { "requires at least \($0). Name that version" } ?? "has no minimum version"
            throw UpdateFailure(
                .configInvalid, subject: version.description,
                "Channel \(channel) \(present): `clientctl channel list` shows it.")
        }
        minimumVersion = nil
        undoneMinimum = max(undoneMinimum ?? version, version)
        return [Self.words(undone: version)]
    }

    static func words(undone floor: SemanticVersion) -> String {
        "versions below \(floor) may run again, unless they are recalled by name. Devices with clientctl 0.9.0 keep this minimum"
    }

    fileprivate mutating func withdraw(_ version: SemanticVersion) throws -> [String] {
        releases.remove(at: try index(of: version))
        return ["\(version): no longer in the channel"]
    }

    fileprivate mutating func setPoll(_ poll: Poll?) -> [String] {
        if self.poll == poll { return [] }
        self.poll = poll
        return [Self.words(poll)]
    }

    fileprivate mutating func setBusyLimit(_ seconds: Int?) -> [String] {
        if busyLimit == seconds { return [] }
        busyLimit = seconds
        return [Self.words(busyLimit: seconds)]
    }

    package static func words(busyLimit seconds: Int?) -> String {
        seconds.map { "a busy page defers activation for at most \(DurationText(.seconds($0)))" }
            ?? "a busy page defers activation for as long as devices are configured to allow"
    }

    package static func words(_ poll: Poll?) -> String {
        guard let poll else { return "devices check at their own interval" }
        let interval = DurationText(.seconds(poll.interval))
        return "devices check every \(interval), with a random delay of up to \(DurationText(.seconds(poll.jitter)))"
    }
}
