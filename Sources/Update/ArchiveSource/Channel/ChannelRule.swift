package import BundleCore
package import BundleValues
package import BundleSigning

/// Which release of a channel a device takes: of all that are offered or installed the highest one that nothing speaks
/// against (CONTRACT section 4). One pure rule for update, rollback, staged rollout and recall.
package enum ChannelRule {
    /// What speaks about one release, in the order of the checks.
    package enum Fate: Sendable, Equatable {
        /// Nothing speaks against it.
        case eligible
        /// Its own signatures do not count.
        case unsigned(UpdateFailure)
        /// It belongs to another application.
        case wrongApp(found: String?)
        /// The channel keeps it from running.
        case withdrawn(FeedMemory.Withdrawal)
        /// No further device takes it.
        case paused
        /// It is not for this shell.
        case incompatible(ShellCompatibility)
        /// It is blocked on this device.
        case blocked(Ledger.Block)
        /// A guard may hold it; why that is not known.
        case mayBeHeld(UpdateFailure)
    }

    /// A release with what was found out about its signatures.
    package enum SignedRelease: Sendable {
        case verified(VerifiedManifest)
        case refused(UpdateFailure)
    }

    /// One release of the channel.
    package struct Candidate: Sendable {
        /// What the channel says about it.
        package let release: ChannelDocument.Release
        /// What its signatures say.
        package let signed: SignedRelease

        /// States a candidate.
        package init(_ release: ChannelDocument.Release, _ signed: SignedRelease) {
            self.release = release
            self.signed = signed
        }
    }

    /// A device as the rule sees it; `appId` is the application that releases must name, `unknownHold` is why what a guard holds is not
    /// known.
    package struct Device: Sendable {
        let inventory: Inventory
        let shell: SemanticVersion
        let appId: String?
        let unknownHold: UpdateFailure?

        /// States a device. The memory in its ledger is that of the document that is judged.
        package init(
            inventory: Inventory, shell: SemanticVersion, appId: String?, unknownHold: UpdateFailure? = nil
        ) {
            self.inventory = inventory
            self.shell = shell
            self.appId = appId
            self.unknownHold = unknownHold
        }
    }

    /// What speaks about `candidate` on `device`.
    package static func fate(of candidate: Candidate, on device: Device) -> Fate {
        let version = candidate.release.version
        let claims = candidate.release.manifest.claims
        let isInstalled = device.inventory.bundle(.archive(version)) != nil
        // What is installed was verified when it came, and may go on when its key is gone.
        if case .refused(let failure) = candidate.signed, !isInstalled { return .unsigned(failure) }
        if let appId = device.appId, claims.appId.map({ $0.utf8.elementsEqual(appId.utf8) }) != true {
            return .wrongApp(found: claims.appId)
        }
        if let withdrawal = device.inventory.ledger.feed.withdrawal(of: version) { return .withdrawn(withdrawal) }
        if candidate.release.isPaused, !isInstalled { return .paused }
        let shells = claims.shells.compatibility(with: device.shell)
        if shells != .compatible { return .incompatible(shells) }
        if let block = device.inventory.ledger.block(on: .archive(version)) { return .blocked(block) }
        if let failure = device.unknownHold, !isInstalled { return .mayBeHeld(failure) }
        return .eligible
    }

    /// The release that `device` is to hear about: the highest eligible one, unless what is installed is as high; then the
    /// highest one that something other than a recall speaks against, where there is one.
    ///
    /// `check` looks at a release's own signatures; nobody asks about those that cannot matter.
    package static func pick(
        _ releases: [ChannelDocument.Release], on device: Device, check: (ChannelDocument.Release) -> SignedRelease
    ) -> Candidate? {
        let newest = SelectionRule.newestUsable(device.inventory, shell: device.shell)?.version.semantic
        var refused: Candidate?
        var recalled: Candidate?
        for release in releases.sorted(by: { $0.version > $1.version }) {
            let candidate = Candidate(release, check(release))
            let fate = fate(of: candidate, on: device)
            if fate == .eligible {
                let isNewer = newest.map { release.version > $0 } ?? true
                return isNewer ? candidate : refused ?? candidate
            }
            if fate.isRecall { recalled = recalled ?? candidate } else { refused = refused ?? candidate }
            // What is installed is higher than everything that follows.
            if let newest, release.version <= newest { break }
        }
        return refused ?? recalled
    }

    /// The shell that the highest release needs which only the age of the device's shell speaks against, where it is higher than
    /// every one that nothing speaks against.
    package static func neededShell(
        _ releases: [ChannelDocument.Release], on device: Device, check: (ChannelDocument.Release) -> SignedRelease
    ) -> SemanticVersion? {
        let newest = SelectionRule.newestUsable(device.inventory, shell: device.shell)?.version.semantic
        for release in releases.sorted(by: { $0.version > $1.version }) {
            if let newest, release.version <= newest { return nil }
            switch fate(of: Candidate(release, check(release)), on: device) {
            case .eligible: return nil
            case .incompatible(.shellTooOld(let minimum)):
                if device.inventory.ledger.block(on: .archive(release.version)) == nil { return minimum }
            default: continue
            }
        }
        return nil
    }

    /// What is to be done about `candidate`.
    package static func decide(_ candidate: Candidate, on device: Device) -> Decision {
        let fate = fate(of: candidate, on: device)
        let version = candidate.release.version
        let newest = SelectionRule.newestUsable(device.inventory, shell: device.shell)
        let isNewer = newest?.version.semantic.map { version > $0 } ?? true
        let runs = newest?.name ?? .embedded
        let verdict: Decision.Verdict =
            switch fate {
            case .eligible: isNewer ? .install : .upToDate(newest: runs)
            case .unsigned(let failure), .mayBeHeld(let failure): .unsuitable(failure)
            case .wrongApp(let found): .wrongApp(expected: device.appId ?? "", found: found)
            case .withdrawn(.leftOut): .notInRollout(newest: runs, detail: "its rollout leaves it out")
            case .paused: .notInRollout(newest: runs, detail: fate.description)
            // What is recalled is not offered: the device runs the best of the rest.
            case .withdrawn(.revoked), .withdrawn(.belowFloor): recalled(newest, fate)
            case .incompatible(let answer): .incompatible(answer)
            case .blocked(let block): .blocked(block)
            }
        return Decision(verdict: verdict, outcomes: outcomes(candidate, fate, newest, device))
    }

    private static func recalled(_ newest: InstalledBundle?, _ fate: Fate) -> Decision.Verdict {
        if let newest { return .upToDate(newest: newest.name) }
        guard case .withdrawn(let withdrawal) = fate else { return .upToDate(newest: .embedded) }
        return .withdrawn(withdrawal)
    }

    /// Membership in a staged rollout: the first 8 bytes of SHA-256 of `salt` and `deviceId`, modulo 1000 (CONTRACT section 4).
    package static func draw(salt: String, deviceId: String) throws(OpenSSLFailure) -> Int {
        let digest = try SHA256Digest.of(Array(salt.utf8) + Array(deviceId.utf8))
        let number = digest.withUnsafeBytes { $0.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        return Int(number % UInt64(ChannelDocument.Release.everybody))
    }
}

extension ChannelRule.Fate: CustomStringConvertible {
    /// Whether the channel has called it back.
    var isRecall: Bool {
        switch self {
        case .withdrawn(.revoked), .withdrawn(.belowFloor): true
        default: false
        }
    }

    /// The fate in words.
    package var description: String {
        switch self {
        case .eligible: "nothing speaks against it"
        case .unsigned(let failure), .mayBeHeld(let failure): failure.message
        case .wrongApp(let found): "it is for \(found ?? "no named application")"
        case .withdrawn(let withdrawal): withdrawal.description
        case .paused: "it is paused: no further device takes it"
        case .incompatible(let answer): "it \(answer)"
        case .blocked(let block): "blocked since \(block.since): \(block.reason)"
        }
    }

    fileprivate static let rules = [
        "signature", "application", "revocation", "floor", "rollout", "shell", "notBlocked",
    ]

    /// The rule that decides; nil where none speaks against it, and for a hold, which was told of before.
    fileprivate var rule: String? {
        switch self {
        case .eligible, .mayBeHeld: nil
        case .unsigned: "signature"
        case .wrongApp: "application"
        case .withdrawn(.revoked): "revocation"
        case .withdrawn(.belowFloor): "floor"
        case .withdrawn(.leftOut), .paused: "rollout"
        case .incompatible: "shell"
        case .blocked: "notBlocked"
        }
    }
}

extension ChannelRule {
    /// Every rule up to the one that decides, each with what it compared.
    private static func outcomes(
        _ candidate: Candidate, _ fate: Fate, _ newest: InstalledBundle?, _ device: Device
    ) -> [Decision.Outcome] {
        var outcomes: [Decision.Outcome] = []
        for rule in Fate.rules {
            let isDecisive = fate.rule == rule
            outcomes.append(
                Decision.Outcome(
                    rule: rule, passed: !isDecisive,
                    detail: isDecisive ? fate.description : detail(rule, candidate, device)))
            if isDecisive { return outcomes }
        }
        let version = candidate.release.version
        let here = newest?.version.semantic
        outcomes.append(
            Decision.Outcome(
                rule: "newer", passed: here.map { version > $0 } ?? true,
                detail: here.map { "offered \(version), newest usable here \($0)" }
                    ?? "offered \(version), nothing usable is installed"))
        return outcomes
    }

    private static func detail(_ rule: String, _ candidate: Candidate, _ device: Device) -> String {
        let claims = candidate.release.manifest.claims
        switch rule {
        case "signature":
            guard case .verified(let manifest) = candidate.signed else { return "" }
            return manifest.signers.map { "\($0.algorithm.rawValue) key \($0.id)" }.joined(separator: ", ")
        case "application":
            guard let appId = device.appId else { return "this device names no application" }
            return "device \(appId), offer \(claims.appId ?? "names none")"
        case "revocation": return "\(claims.version) is not recalled"
        case "floor":
            let floor = device.inventory.ledger.feed.followed?.minimumVersion
            return floor.map { "nothing below \($0) is allowed" } ?? "the channel has no floor"
        case "rollout":
            let groups = device.inventory.ledger.feed.groups.filter(candidate.release.groups.contains)
            if let group = groups.first { return "the group \(group) may have it first, this device is in it" }
            if candidate.release.isOnlyForGroups { return "it is for this very device" }
            if let ramp = candidate.release.ramp { return "\(ramp); this device is among them" }
            return
                "\(RolloutShare(permille: candidate.release.rollout)) of the devices may have it, this one among them"
        case "shell":
            let maximum = claims.shells.maximum.map { "at most \($0)" } ?? "no upper limit"
            return "shell \(device.shell), needed at least \(claims.shells.minimum), \(maximum)"
        default: return "not blocked on this device"
        }
    }
}
