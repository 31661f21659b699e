package import BundleCore
package import BundleSigning
package import BundleValues

/// The condition of a device that its ledger does not contain.
package struct DeviceCondition: Sendable, Equatable {
    /// The end of the last check, and the code of its failure with the status or version that it is about.
    package var checked: Timestamp?
    package var code: String?
    /// The state of the screen; nil without `serve`.
    package var screen: RosterPost.ShownScreen?
    /// Whether the device has activation windows, and none is open.
    package var isOutsideWindows = false
    /// The codes of the doctor's findings that need attention.
    package var findings: [String] = []

    package init() {}
}

/// The identity of a device for a roster.
package struct RosterIdentity: Sendable, Equatable {
    /// The name of --name; empty without one.
    package let name: String
    /// The ID of --device-id; nil without one.
    package let deviceId: String?
    /// Whether the device follows a channel, which gives it an ID at the first check.
    package let followsChannel: Bool
    /// The version of clientctl.
    package let program: String
    /// The longest time between two messages.
    package let interval: Duration
    /// The tags of --tag.
    package let tags: [String]
    /// Whether the message has the last line of the error of a failed start.
    package let sendsErrors: Bool

    package init(
        name: String, deviceId: String?, followsChannel: Bool, program: String, interval: Duration,
        tags: [String] = [], sendsErrors: Bool = true
    ) {
        self.name = name
        self.deviceId = deviceId
        self.followsChannel = followsChannel
        self.program = program
        self.interval = interval
        self.tags = tags
        self.sendsErrors = sendsErrors
    }
}

/// Makes the message of a device from its ledger. A roster gets nothing else.
package enum RosterReading {
    /// Returns the 16 hex digits of the group that contains only this device. Prefers IDs in the same order as rollouts. `keyId`
    /// identifies a device that follows no channel and has no other ID. Returns nil before the first check of a device that gets its ID then.
    package static func device(
        _ ledger: Ledger, _ identity: RosterIdentity, machine: String?, keyId: String
    ) throws(OpenSSLFailure) -> String? {
        let stored = ledger.feed.deviceId
        let given = identity.deviceId ?? (ledger.feed.deviceIdSource == .given ? stored : nil)
        guard let id = given ?? machine ?? stored ?? (identity.followsChannel ? nil : keyId) else { return nil }
        return String(try DeviceGroup.single(id).suffix(RosterPost.deviceDigits))
    }

    /// Returns the message of `device`.
    package static func post(
        of device: String, _ identity: RosterIdentity, _ ledger: Ledger, _ condition: DeviceCondition
    ) -> RosterPost {
        let (runs, state) = running(ledger)
        let next = ledger.launch == nil ? ledger.known(ledger.current) : ledger.pending
        let followed = ledger.feed.followed
        return RosterPost(
            device: device, name: identity.name, state: state, program: identity.program,
            interval: Int(identity.interval.components.seconds), appId: ledger.appId, runs: runs?.shortDescription,
            next: next?.shortDescription, waiting: waiting(ledger, next: next, condition), screen: condition.screen,
            shell: ledger.shell, channel: followed?.name, sequence: followed?.sequence, checked: condition.checked,
            code: condition.code ?? ledger.wanted.last.map { code($0.code, of: $0.version.description) },
            blocked: ledger.blocks.map(\.version.description), findings: condition.findings,
            groups: ledger.feed.groups, tags: identity.tags,
            failure: identity.sendsErrors ? ledger.lastFailedStart.map(failure) : nil)
    }

    /// Returns the version, the kind of failure and its detail, which can be the error of a page.
    private static func failure(_ version: ClientVersion, _ failure: StartFailure) -> String {
        "\(version) \(failure.cause.rawValue)" + (failure.detail.isEmpty ? "" : ": \(failure.detail)")
    }

    /// Returns the code of a check's failure, with the status of the server or the blocked version.
    package static func code(_ failure: UpdateFailure) -> String {
        RosterPost.code(failure.code.rawValue, value: failure.status.map(String.init))
    }

    private static func code(_ code: FailureCode, of version: String) -> String {
        RosterPost.code(code.rawValue, value: code == .versionBlocked ? version : nil)
    }

    private static func running(_ ledger: Ledger) -> (ClientName?, RosterPost.ClientState) {
        guard let name = ledger.launch?.name else { return (nil, .none) }
        guard let version = name.version else { return (name, .seed) }
        return switch ledger.standing(of: version) {
        case .trial: (name, .trial)
        case .good: (name, .good)
        case .failed: (name, .failed)
        case .blocked: (name, .blocked)
        // A launch without a verdict whose trial was abandoned.
        case .staged: (name, .trial)
        }
    }

    private static func waiting(
        _ ledger: Ledger, next: ClientName?, _ condition: DeviceCondition
    ) -> RosterPost.WaitReason? {
        if next != nil { return condition.isOutsideWindows ? .window : .page }
        if let needed = ledger.feed.neededShell, let shell = ledger.shell, needed > shell { return .shell }
        if let waiting = ledger.waiting {
            return switch waiting.reason {
            case .hours: .hours
            case .budget: .budget
            case .deltas: .deltas
            }
        }
        let runs = ledger.launch?.name.version?.semantic
        func isAhead(_ version: SemanticVersion) -> Bool { runs.map { version > $0 } ?? true }
        guard let channel = ledger.feed.followed else { return nil }
        if channel.leftOut.contains(where: isAhead) { return .rollout }
        return channel.paused.contains(where: isAhead) ? .paused : nil
    }
}
