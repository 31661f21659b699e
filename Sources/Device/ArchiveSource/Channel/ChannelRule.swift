import BundleFormats
package import BundleCore
package import BundleValues
package import BundleSigning

/// Selects the release of a channel for a device: the highest offered or installed one without an objection. This
/// one rule covers updates, rollbacks, staged rollouts and recalls.
package enum ChannelRule {
    /// The rules about one release, in their order. The first objection decides.
    package enum ReleaseRule: CaseIterable, Sendable {
        case signature, application, recall, floor, rollout, pause, shell, blocked, hold
    }

    /// The reason why a device may not have a release.
    package struct Objection: Sendable, Equatable {
        package let rule: ReleaseRule
        package let verdict: Decision.Verdict
        package let reason: String

        /// The word for apps on phones, as in the page's module for them.
        package var phoneWord: String {
            switch rule {
            case .recall, .floor, .rollout: "no_new_version_available"
            case .signature: "not_signed"
            case .application: "wrong_app"
            case .pause: "paused"
            case .shell: if case .incompatible(.shellTooOld) = verdict { "app_too_old" } else { "app_too_new" }
            case .blocked: "blocked"
            case .hold: "may_be_held"
            }
        }

        /// Whether the channel recalls the release.
        var isRecall: Bool { rule == .recall || rule == .floor }

        /// The objection to releases of application `found`.
        package static func application(_ found: String, expected: String) -> Objection {
            Objection(
                rule: .application, verdict: .wrongApp(expected: expected, found: found), reason: "it is for \(found)")
        }
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

        fileprivate var version: SemanticVersion { release.version }
    }

    /// The input of the rule from the device. `appId` is the application that releases must name; `unknownHold` is the
    /// failure to read the hold.
    package struct JudgedDevice: Sendable {
        let inventory: Inventory
        let shell: SemanticVersion
        let appId: String?
        let unknownHold: UpdateFailure?
        /// The highest usable archive.
        let newest: InstalledBundle?

        /// Creates a device. Its ledger must contain the memory of the judged document.
        package init(
            inventory: Inventory, shell: SemanticVersion, appId: String?, unknownHold: UpdateFailure? = nil
        ) {
            self.inventory = inventory
            self.shell = shell
            self.appId = appId
            self.unknownHold = unknownHold
            newest = SelectionRule.newestUsable(inventory, shell: shell)
        }

        /// The client that runs instead of a release.
        fileprivate var runs: ClientName { newest?.name ?? .embedded }

        fileprivate func has(_ candidate: Candidate) -> Bool {
            inventory.bundle(.archive(candidate.version)) != nil
        }
    }

    /// Returns the first objection to `candidate` on `device`; nil if it may be installed.
    package static func objection(to candidate: Candidate, on device: JudgedDevice) -> Objection? {
        for rule in ReleaseRule.allCases {
            if case .objection(let verdict, let reason) = rule.answer(candidate, on: device) {
                return Objection(rule: rule, verdict: verdict, reason: reason)
            }
        }
        return nil
    }

    /// Returns the release to offer: the highest eligible one above the installed one; otherwise the highest one with
    /// an objection other than a recall, if there is one.
    ///
    /// `check` verifies a release's signatures. It is called only for releases that can affect the result.
    package static func pick(
        _ releases: [ChannelDocument.Release], on device: JudgedDevice,
        check: (ChannelDocument.Release) -> SignatureResult
    ) -> Candidate? {
        let newest = device.newest?.version.semantic
        var refused: Candidate?
        var recalled: Candidate?
        for release in releases.sorted(by: { $0.version > $1.version }) {
            let candidate = Candidate(release, check(release))
            guard let objection = objection(to: candidate, on: device) else {
                let isNewer = newest.map { release.version > $0 } ?? true
                return isNewer ? candidate : refused ?? candidate
            }
            if objection.isRecall { recalled = recalled ?? candidate } else { refused = refused ?? candidate }
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
        let newest = device.newest?.version.semantic
        for release in releases.sorted(by: { $0.version > $1.version }) {
            if let newest, release.version <= newest { return nil }
            switch objection(to: Candidate(release, check(release)), on: device)?.verdict {
            case nil: return nil
            case .incompatible(.shellTooOld(let minimum))?:
                if device.inventory.ledger.block(on: .archive(release.version)) == nil { return minimum }
            default: continue
            }
        }
        return nil
    }

    /// Returns the decision about `candidate`, with every rule up to the decisive one.
    package static func decide(_ candidate: Candidate, on device: JudgedDevice) -> Decision {
        let objection = objection(to: candidate, on: device)
        var answers: [(rule: String, answer: RuleAnswer)] = []
        for rule in ReleaseRule.allCases where rule.isListed(with: objection) {
            answers.append((rule.name, rule.answer(candidate, on: device)))
            if rule == objection?.rule { return Decision(answers, otherwise: .install) }
        }
        answers.append(("newer", AcceptanceRule.newer(candidate.version, than: device.newest)))
        let decision = Decision(answers, otherwise: .install)
        return objection.map { Decision(verdict: $0.verdict, outcomes: decision.outcomes) } ?? decision
    }

    /// Returns the bucket of a device in a staged rollout, 0...999: the first 8 bytes of the SHA-256 of `salt` and
    /// `deviceId`, modulo 1000.
    package static func bucket(salt: String, deviceId: String) throws(OpenSSLFailure) -> Int {
        let digest = try SHA256Digest.of(Array(salt.utf8) + Array(deviceId.utf8))
        let number = digest.withUnsafeBytes { $0.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        return Int(number % UInt64(ChannelDocument.Release.allDevices))
    }
}

extension ChannelRule.ReleaseRule {
    fileprivate func answer(_ candidate: ChannelRule.Candidate, on device: ChannelRule.JudgedDevice) -> RuleAnswer {
        let claims = candidate.release.manifest.claims
        return switch self {
        case .signature: signature(candidate, device)
        case .application:
            AcceptanceRule.application(claims.appId, on: device.appId)
                .because("it is for \(claims.appId ?? "no named application")")
        case .recall: recall(candidate, device)
        case .floor: floor(candidate, device)
        case .rollout: rollout(candidate, device)
        case .pause: pause(candidate, device)
        case .shell:
            AcceptanceRule.shell(claims.shells, on: device.shell)
                .because("it \(claims.shells.compatibility(with: device.shell))")
        case .blocked: AcceptanceRule.blocked(.archive(candidate.version), in: device.inventory)
        case .hold: hold(candidate, device)
        }
    }

    /// The name in the outcomes.
    fileprivate var name: String { self == .pause ? "rollout" : "\(self)" }

    /// Whether it is an outcome of its own. A pause and the rollout are one, and the evidence of the channel has the hold.
    fileprivate func isListed(with objection: ChannelRule.Objection?) -> Bool {
        switch self {
        case .rollout: objection?.rule != .pause
        case .pause: objection?.rule == .pause
        case .hold: false
        case .signature, .application, .recall, .floor, .shell, .blocked: true
        }
    }

    /// An installed release was verified during installation and may run after its key is gone.
    private func signature(_ candidate: ChannelRule.Candidate, _ device: ChannelRule.JudgedDevice) -> RuleAnswer {
        switch candidate.signed {
        case .verified(let manifest):
            return .passed {
                manifest.signers.map { "\($0.algorithm.rawValue) key \($0.id)" }.joined(separator: ", ")
            }
        case .refused(let failure):
            return device.has(candidate) ? .passed { "" } : .objection(.unsuitable(failure), failure.message)
        }
    }

    private func recall(_ candidate: ChannelRule.Candidate, _ device: ChannelRule.JudgedDevice) -> RuleAnswer {
        let withdrawal = device.inventory.ledger.feed.withdrawal(of: candidate.version)
        guard case .recalled? = withdrawal else { return .passed { "\(candidate.version) is not recalled" } }
        return recalled(withdrawal, device)
    }

    private func floor(_ candidate: ChannelRule.Candidate, _ device: ChannelRule.JudgedDevice) -> RuleAnswer {
        let feed = device.inventory.ledger.feed
        let withdrawal = feed.withdrawal(of: candidate.version)
        guard case .belowFloor? = withdrawal else {
            return .passed {
                feed.followed?.minimumVersion.map { "nothing below \($0) is allowed" }
                    ?? "the channel does not have a minimum version"
            }
        }
        return recalled(withdrawal, device)
    }

    /// A recalled release is not offered: the device runs the best of the others.
    private func recalled(_ withdrawal: FeedMemory.Withdrawal?, _ device: ChannelRule.JudgedDevice) -> RuleAnswer {
        guard let withdrawal else { return .passed { "" } }
        return .objection(
            device.newest.map { .upToDate(newest: $0.name) } ?? .withdrawn(withdrawal), withdrawal.description)
    }

    private func rollout(_ candidate: ChannelRule.Candidate, _ device: ChannelRule.JudgedDevice) -> RuleAnswer {
        let (release, feed) = (candidate.release, device.inventory.ledger.feed)
        let share = "\(RolloutPercentage(permille: release.rollout))"
        if case .leftOut? = feed.withdrawal(of: release.version) {
            // A percentage that changes over time says nothing about later.
            let detail =
                release.ramp != nil || release.isOnlyForGroups
                ? "its rollout excludes it" : "its rollout of \(share) excludes it"
            return .objection(
                .notInRollout(newest: device.runs, detail: detail), FeedMemory.Withdrawal.leftOut.description)
        }
        return .passed {
            if let group = feed.groups.first(where: release.groups.contains) {
                return "this device is in the group \(group), which may install it first"
            }
            if release.isOnlyForGroups { return "it is for this device" }
            if let ramp = release.ramp { return "\(ramp); this device is included" }
            return "\(share) of the devices may install it, including this one"
        }
    }

    private func pause(_ candidate: ChannelRule.Candidate, _ device: ChannelRule.JudgedDevice) -> RuleAnswer {
        if !candidate.release.isPaused || device.has(candidate) { return .passed { "" } }
        let reason = "it is paused, so further devices do not install it"
        return .objection(.notInRollout(newest: device.runs, detail: reason), reason)
    }

    /// The hold could not be read, so the release may be held.
    private func hold(_ candidate: ChannelRule.Candidate, _ device: ChannelRule.JudgedDevice) -> RuleAnswer {
        guard let failure = device.unknownHold, !device.has(candidate) else { return .passed { "" } }
        return .objection(.unsuitable(failure), failure.message)
    }
}
