import BundleCore
import BundleValues

extension DoctorRule {
    // MARK: Clients

    static func clients(_ reading: DoctorReading) -> DoctorFinding? {
        guard let inventory = reading.inventory else { return nil }
        let path = reading.store.path
        guard let choice = SelectionRule.select(inventory, shell: reading.shell, hasSeed: reading.hasSeed) else {
            let shell = reading.shell.map { " with shell \($0)" } ?? ""
            return .failure(
                .clients, path,
                inventory.bundles.isEmpty
                    ? "There is nothing to show: the store has no client, and no seed is known."
                    : "There is nothing to show: no client of the store may run\(shell), and no seed is known.",
                "Install a client, or name a seed with --seed. `clientctl status --store \(path)` shows why a client does not run."
            )
        }
        if case .retry(let failure) = choice.reason {
            return .warning(
                .clients, path, "\(choice.name) \(failure.sequel): \(failure).",
                "Correct the cause before the second trial, which blocks the version if it fails, too.")
        }
        if let unconfirmed = reading.complaints[choice.name.description]?.first(where: ComplaintFile.isUnconfirmed) {
            return .warning(
                .clients, path, "\(choice.name) is shown next, and its page said \(unconfirmed).",
                "Look at the screen. A newer client may have changed the data that this one reads; publish a release that can read both."
            )
        }
        return .ok(
            .clients, path, choice.name == .embedded ? "The seed is shown next." : "\(choice.name) is shown next.")
    }

    /// Returns a warning for each client that failed to start and is tried again, unless it or a newer one is next.
    static func trials(_ reading: DoctorReading) -> [DoctorFinding] {
        guard let inventory = reading.inventory else { return [] }
        let next = SelectionRule.select(inventory, shell: reading.shell, hasSeed: reading.hasSeed)?.name
        return inventory.bundles.compactMap { bundle in
            guard bundle.name != next, case .failed(let failure) = inventory.ledger.standing(of: bundle.version) else {
                return nil
            }
            if let version = bundle.version.semantic, let next = next?.version?.semantic, version < next { return nil }
            return .warning(
                .clients, reading.store.path, "\(bundle.name) \(failure.sequel): \(failure).",
                "If the release is at fault, publish a fix. `clientctl status --store \(reading.store.path)` shows each failure."
            )
        }
    }

    static func origins(_ reading: DoctorReading) -> DoctorFinding? {
        guard let origins = reading.origins else { return nil }
        let path = reading.store.path
        if origins.refusals.isEmpty {
            let count = Set(origins.sources.values.joined()).count
            return .ok(
                .origins, path,
                count == 0
                    ? "The client that is shown next declares no origins."
                    : "This device grants \(count == 1 ? "the origin" : "all \(count) origins") that the next client declares."
            )
        }
        return .warning(
            .origins, path, "In the client that is shown next, \(origins.refusals.joined(separator: "; ")).")
    }

    // MARK: Session

    static func session(_ reading: DoctorReading) -> DoctorFinding? {
        guard let session = reading.session else { return nil }
        let path = reading.store.path
        let guests = reading.hasSeed ? "Guests see the seed" : "Guests see no client, because the device has no seed"
        switch session {
        case .notRequired: return .ok(.session, path, "No session is required.")
        case .authenticated: return .ok(.session, path, "A user is signed in.")
        case .locked(let lock):
            return .warning(
                .session, path,
                lock == .forMaintenance
                    ? "The device is locked for maintenance, so it shows no client."
                    : "The device is locked, so it shows no client.",
                "`clientctl screen unlock --store \(path)` unlocks it.")
        case .unauthenticated(.unreadable):
            return .failure(
                .session, path, "The session of the store cannot be read, so no user is admitted.",
                "`clientctl status --store \(path)` says why. Give session.json to the store's owner (mode 0600).")
        case .unauthenticated(.ended(let cause)):
            let found =
                switch cause {
                case .signedOut: "No user is signed in."
                case .expired: "The session has expired."
                case .rejected: "The session has ended, because the feed refused its token."
                }
            return .warning(
                .session, path, "\(found) \(guests).",
                "`clientctl session login --store \(path)` begins a session; `clientctl session logout --forget --store \(path)` "
                    + "removes the requirement of one."
            )
        }
    }

    // MARK: Device ID

    static func deviceId(_ reading: DoctorReading) -> DoctorFinding? {
        guard reading.feeds.contains(where: \.isChannel) else { return nil }
        return switch reading.deviceIdSource {
        case .given: .ok(.deviceId, "device-id", "Rollouts identify this device by the ID of --device-id.")
        case .machine: .ok(.deviceId, "/etc/machine-id", "Rollouts identify this device by its machine ID.")
        case .drawn, nil:
            .warning(
                .deviceId, "/etc/machine-id",
                "This machine has no ID, so rollouts identify it by an ID in its store. Every copy of the store is the same device."
            )
        }
    }

    static func screen(_ reading: DoctorReading) -> DoctorFinding? {
        guard let note = reading.screen, let complaint = note.complaint(at: reading.clock) else { return nil }
        return .warning(
            .screen, reading.store.path, complaint.prefix(1).uppercased() + complaint.dropFirst() + ".")
    }

    // MARK: Offer

    static func offer(_ feed: DoctorReading.FeedReading, _ reading: DoctorReading) -> DoctorFinding? {
        guard let offer = feed.check.offer else { return nil }
        let (url, version) = (feed.url.display, offer.version)
        switch offer.verdict {
        case .install, .choose: return .ok(.offer, url, "\(version) is for this device; the next check installs it.")
        case .upToDate:
            guard let minimum = missingShell(feed, reading) else {
                return .ok(.offer, url, "This device has the newest client that is for it.")
            }
            return tooOld("A better client", minimum, url)
        case .notInRollout(_, let detail):
            return .ok(.offer, url, "\(version) is not for this device yet, which is as the channel says: \(detail).")
        case .incompatible(.shellTooOld(let minimum)):
            // Without a known shell version, no client is too new.
            return reading.shell == nil ? nil : tooOld("\(version)", minimum, url)
        case .incompatible, .withdrawn:
            return .warning(
                .offer, url, offer.verdict.failure(of: version)?.message ?? "\(version) is not for this device.",
                "Publish a release that this device can run.")
        case .blocked(let block):
            return .warning(
                .offer, url, "\(version) is blocked on this device since \(block.since): \(block.reason)",
                block.advice(store: reading.store.path))
        case .wrongApp, .unsuitable: return nil
        }
    }

    /// The number of failed attempts from which network errors are not occasional.
    private static let attempts = 3

    static func wanted(_ reading: DoctorReading) -> [DoctorFinding] {
        guard let wanted = reading.store.ledger?.wanted else { return [] }
        if wanted.isEmpty { return [.ok(.wanted, reading.store.path, "Offered releases arrive on this device.")] }
        return wanted.map { wanted in
            let isOccasional = [.networkUnavailable, .httpStatus].contains(wanted.code) && wanted.attempts < attempts
            if isOccasional {
                let count = wanted.attempts == 1 ? "1 attempt" : "\(wanted.attempts) attempts"
                return .ok(
                    .wanted, wanted.version.description,
                    "\(ClientName.installed(wanted.version)) has not arrived in \(count); the next check tries again. \(wanted.reason)"
                )
            }
            return .warning(
                .wanted, wanted.version.description, "\(wanted)",
                FindingCode.wanted.remedy
                    + " If only this device fails, check the network between it and the feed."
            )
        }
    }

    private static func missingShell(_ feed: DoctorReading.FeedReading, _ reading: DoctorReading) -> SemanticVersion? {
        guard let shell = reading.shell, let needed = feed.check.memory?.neededShell, needed > shell else { return nil }
        return needed
    }

    private static func tooOld(_ what: String, _ minimum: SemanticVersion, _ url: String) -> DoctorFinding {
        .warning(
            .offer, url, "\(what) \(ShellCompatibility.shellTooOld(minimum: minimum)).",
            "Update the shell of this device.")
    }
}
