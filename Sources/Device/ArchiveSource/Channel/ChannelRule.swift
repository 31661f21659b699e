package import BundleCore
package import BundleValues
package import BundleSigning

/// Selects the release of a channel for a device: the highest offered or installed one without an objection. This
/// one rule covers updates, rollbacks, staged rollouts and recalls.
package enum ChannelRule {
    /// The objection to a release, in the order of the checks.
    package enum Eligibility: Sendable, Equatable {
        /// There is no objection.
        case eligible
        /// The signatures of the release are not valid.
        case unsigned(UpdateFailure)
        /// The release is for another application.
        case wrongApp(found: String?)
        /// The channel recalls the release, excludes the device from its rollout, or requires a higher version.
        case withdrawn(FeedMemory.Withdrawal)
        /// The release is paused.
        case paused
        /// The release does not support this shell.
        case incompatible(ShellCompatibility)
        /// The release is blocked on this device.
        case blocked(Ledger.Block)
        /// The hold could not be read, so the release may be held.
        case mayBeHeld(UpdateFailure)
    }

    /// The result of the verification of a release's signatures.
    package enum SignatureResult: Sendable {
        case verified(VerifiedManifest)
        case refused(UpdateFailure)
    }

    /// A release of the channel and the result of its verification.
    package struct Candidate: Sendable {
        package let release: ChannelDocument.Release
        package let signed: SignatureResult

        package init(_ release: ChannelDocument.Release, _ signed: SignatureResult) {
            self.release = release
            self.signed = signed
        }
    }

    /// The input of the rule from the device. `appId` is the application that releases must name; `unknownHold` is the
    /// failure to read the hold.
    package struct JudgedDevice: Sendable {
        let inventory: Inventory
        let shell: SemanticVersion
        let appId: String?
        let unknownHold: UpdateFailure?

        /// Creates a device. Its ledger must contain the memory of the judged document.
        package init(
            inventory: Inventory, shell: SemanticVersion, appId: String?, unknownHold: UpdateFailure? = nil
        ) {
            self.inventory = inventory
            self.shell = shell
            self.appId = appId
            self.unknownHold = unknownHold
        }
    }

    /// Returns the first objection to `candidate` on `device`.
    package static func eligibility(of candidate: Candidate, on device: JudgedDevice) -> Eligibility {
        let version = candidate.release.version
        let claims = candidate.release.manifest.claims
        let isInstalled = device.inventory.bundle(.archive(version)) != nil
        // An installed release was verified during installation and may run after its key is gone.
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

    /// Returns the release to offer: the highest eligible one above the installed one; otherwise the highest one with
    /// an objection other than a recall, if there is one.
    ///
    /// `check` verifies a release's signatures. It is called only for releases that can affect the result.
    package static func pick(
        _ releases: [ChannelDocument.Release], on device: JudgedDevice,
        check: (ChannelDocument.Release) -> SignatureResult
    ) -> Candidate? {
        let newest = SelectionRule.newestUsable(device.inventory, shell: device.shell)?.version.semantic
        var refused: Candidate?
        var recalled: Candidate?
        for release in releases.sorted(by: { $0.version > $1.version }) {
            let candidate = Candidate(release, check(release))
            let eligibility = eligibility(of: candidate, on: device)
            if eligibility == .eligible {
                let isNewer = newest.map { release.version > $0 } ?? true
                return isNewer ? candidate : refused ?? candidate
            }
            if eligibility.isRecall { recalled = recalled ?? candidate } else { refused = refused ?? candidate }
            // The installed release is higher than all that follow.
            if let newest, release.version <= newest { break }
        }
        return refused ?? recalled
    }

    /// Returns the shell that the highest release with no objection but the age of the shell requires; nil if an
    /// eligible release is higher.
    package static func neededShell(
        _ releases: [ChannelDocument.Release], on device: JudgedDevice,
        check: (ChannelDocument.Release) -> SignatureResult
    ) -> SemanticVersion? {
        let newest = SelectionRule.newestUsable(device.inventory, shell: device.shell)?.version.semantic
        for release in releases.sorted(by: { $0.version > $1.version }) {
            if let newest, release.version <= newest { return nil }
            switch eligibility(of: Candidate(release, check(release)), on: device) {
            case .eligible: return nil
            case .incompatible(.shellTooOld(let minimum)):
                if device.inventory.ledger.block(on: .archive(release.version)) == nil { return minimum }
            default: continue
            }
        }
        return nil
    }

    /// Returns the decision about `candidate`.
    package static func decide(_ candidate: Candidate, on device: JudgedDevice) -> Decision {
        let eligibility = eligibility(of: candidate, on: device)
        let version = candidate.release.version
        let newest = SelectionRule.newestUsable(device.inventory, shell: device.shell)
        let isNewer = newest?.version.semantic.map { version > $0 } ?? true
        let runs = newest?.name ?? .embedded
        let verdict: Decision.Verdict =
            switch eligibility {
            case .eligible: isNewer ? .install : .upToDate(newest: runs)
            case .unsigned(let failure), .mayBeHeld(let failure): .unsuitable(failure)
            case .wrongApp(let found): .wrongApp(expected: device.appId ?? "", found: found)
            case .withdrawn(.leftOut): .notInRollout(newest: runs, detail: exclusion(by: candidate.release))
            case .paused: .notInRollout(newest: runs, detail: eligibility.description)
            // A recalled release is not offered: the device runs the best of the others.
            case .withdrawn(.recalled), .withdrawn(.belowFloor): recalled(newest, eligibility: eligibility)
            case .incompatible(let answer): .incompatible(answer)
            case .blocked(let block): .blocked(block)
            }
        return Decision(
            verdict: verdict, outcomes: outcomes(of: candidate, eligibility: eligibility, newest: newest, on: device))
    }

    /// Returns the reason why the rollout of `release` excludes the device, with the percentage if that does not change over time.
    private static func exclusion(by release: ChannelDocument.Release) -> String {
        if release.ramp != nil || release.isOnlyForGroups { return "its rollout excludes it" }
        return "its rollout of \(RolloutPercentage(permille: release.rollout)) excludes it"
    }

    private static func recalled(_ newest: InstalledBundle?, eligibility: Eligibility) -> Decision.Verdict {
        if let newest { return .upToDate(newest: newest.name) }
        guard case .withdrawn(let withdrawal) = eligibility else { return .upToDate(newest: .embedded) }
        return .withdrawn(withdrawal)
    }

    /// Returns the bucket of a device in a staged rollout, 0...999: the first 8 bytes of the SHA-256 of `salt` and
    /// `deviceId`, modulo 1000.
    package static func bucket(salt: String, deviceId: String) throws(OpenSSLFailure) -> Int {
        let digest = try SHA256Digest.of(Array(salt.utf8) + Array(deviceId.utf8))
        let number = digest.withUnsafeBytes { $0.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        return Int(number % UInt64(ChannelDocument.Release.allDevices))
    }
}

extension ChannelRule.Eligibility: CustomStringConvertible {
    /// Whether the channel recalls the release.
    var isRecall: Bool {
        switch self {
        case .withdrawn(.recalled), .withdrawn(.belowFloor): true
        default: false
        }
    }

    package var description: String {
        switch self {
        case .eligible: "it may be installed"
        case .unsigned(let failure), .mayBeHeld(let failure): failure.message
        case .wrongApp(let found): "it is for \(found ?? "no named application")"
        case .withdrawn(let withdrawal): withdrawal.description
        case .paused: "it is paused, so further devices do not install it"
        case .incompatible(let answer): "it \(answer)"
        case .blocked(let block): "blocked since \(block.since): \(block.reason)"
        }
    }

    fileprivate static let rules = [
        "signature", "application", "recall", "floor", "rollout", "shell", "blocked",
    ]

    /// The rule with the objection; nil for an eligible release, and for a hold, which is reported separately.
    fileprivate var rule: String? {
        switch self {
        case .eligible, .mayBeHeld: nil
        case .unsigned: "signature"
        case .wrongApp: "application"
        case .withdrawn(.recalled): "recall"
        case .withdrawn(.belowFloor): "floor"
        case .withdrawn(.leftOut), .paused: "rollout"
        case .incompatible: "shell"
        case .blocked: "blocked"
        }
    }
}

extension ChannelRule {
    /// Returns every rule up to the decisive one, with the compared values.
    private static func outcomes(
        of candidate: Candidate, eligibility: Eligibility, newest: InstalledBundle?, on device: JudgedDevice
    ) -> [Decision.Outcome] {
        var outcomes: [Decision.Outcome] = []
        for rule in Eligibility.rules {
            let isDecisive = eligibility.rule == rule
            outcomes.append(
                Decision.Outcome(
                    rule: rule, passed: !isDecisive,
                    detail: isDecisive ? eligibility.description : detail(of: rule, candidate: candidate, on: device)))
            if isDecisive { return outcomes }
        }
        let version = candidate.release.version
        let here = newest?.version.semantic
        outcomes.append(
            Decision.Outcome(
                rule: "newer", passed: here.map { version > $0 } ?? true,
                detail: here.map { "offered \(version), newest usable here \($0)" }
                    ?? "offered \(version), no usable client is installed"))
        return outcomes
    }

    private static func detail(of rule: String, candidate: Candidate, on device: JudgedDevice) -> String {
        let claims = candidate.release.manifest.claims
        switch rule {
        case "signature":
            guard case .verified(let manifest) = candidate.signed else { return "" }
            return manifest.signers.map { "\($0.algorithm.rawValue) key \($0.id)" }.joined(separator: ", ")
        case "application":
            guard let appId = device.appId else { return "this device does not name an application" }
            return "device \(appId), offer \(claims.appId ?? "without a name")"
        case "recall": return "\(claims.version) is not recalled"
        case "floor":
            let floor = device.inventory.ledger.feed.followed?.minimumVersion
            return floor.map { "nothing below \($0) is allowed" } ?? "the channel does not have a minimum version"
        case "rollout":
            let groups = device.inventory.ledger.feed.groups.filter(candidate.release.groups.contains)
            if let group = groups.first { return "this device is in the group \(group), which may install it first" }
            if candidate.release.isOnlyForGroups { return "it is for this device" }
            if let ramp = candidate.release.ramp { return "\(ramp); this device is included" }
            return
                "\(RolloutPercentage(permille: candidate.release.rollout)) of the devices may install it, including this one"
        case "shell":
            let maximum = claims.shells.maximum.map { "at most \($0)" } ?? "no upper limit"
            return "shell \(device.shell), needed at least \(claims.shells.minimum), \(maximum)"
        default: return "not blocked on this device"
        }
    }
}
