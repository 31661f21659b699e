import BundleCore
import BundleDisk
import BundleFetch
import BundleFormats
import BundleValues

/// The rules of the doctor. Each evaluates one part of a reading.
package enum DoctorRule {
    /// Returns the findings about a device, beginning with its store.
    package static func findings(_ reading: DoctorReading) -> [DoctorFinding] {
        let store = reading.store
        let disk: [DoctorFinding?] = [clock(reading), folder(store), parents(store), space(store), inodes(store)]
        let content: [DoctorFinding?] = [ledger(store), clients(reading), origins(reading)]
        let state: [DoctorFinding?] = [
            session(reading), screen(reading), leftovers(store), trust(reading), source(reading),
        ]
        let device: [DoctorFinding?] = [deviceId(reading), reading.port.map(port), landlock(reading.confinement)]
        var findings = disk.compactMap(\.self) + links(store)
        findings += content.compactMap(\.self) + trials(reading) + state.compactMap(\.self)
        findings += reading.feeds.flatMap { feed($0, reading) } + wanted(reading)
        return findings + device.compactMap(\.self)
    }

    /// Returns the worst severity of `findings`; `ok` if there are none.
    package static func worst(_ findings: [DoctorFinding]) -> DoctorFinding.Severity {
        findings.map(\.severity).max() ?? .ok
    }

    // MARK: Clock

    private static let signedSkew = 300
    private static let smallSkew = 120
    private static let largeSkew = 86_400
    /// A device and its program are hardly older than five years.
    private static let plausible = 5 * 366 * 86_400

    static func clock(_ reading: DoctorReading) -> DoctorFinding {
        let clock = reading.clock
        let memories = [reading.store.ledger?.feed] + reading.feeds.map { $0.check.memory }
        // Time 0 selects the latest signed time, or the build time of this program.
        let start = Timestamp(clamping: 0)
        let signed =
            memories.compactMap(\.self).map { TrustedTime.at(start, knowing: $0) }.max()
            ?? TrustedTime.at(start, knowing: FeedMemory())
        if clock < signed, Self.gap(clock, signed) > signedSkew {
            return .failure(
                .clock, "clock",
                "The clock says \(clock), \(Timestamp.words(seconds: Self.gap(clock, signed))) before the latest signed time (\(signed))."
            )
        }
        let dates = reading.feeds.compactMap { feed in feed.date.map { (feed.url.display, $0) } }
        guard let (url, date) = dates.max(by: { Self.gap(clock, $0.1) < Self.gap(clock, $1.1) }) else {
            if Self.gap(clock, signed) > plausible {
                return .warning(
                    .clock, "clock",
                    "The clock says \(clock), \(Timestamp.words(seconds: Self.gap(clock, signed))) after the latest signed time (\(signed)). No server returned its time."
                )
            }
            return .ok(
                .clock, "clock",
                "The clock says \(clock), not before the latest signed time. No server returned its time.")
        }
        let gap = Self.gap(clock, date)
        if gap <= smallSkew {
            return .ok(.clock, "clock", "The clock says \(clock), like that of \(url).")
        }
        let side = clock < date ? "behind" : "ahead of"
        let found = "The clock says \(clock), \(Timestamp.words(seconds: gap)) \(side) that of \(url) (\(date))."
        if date < signed, Self.gap(date, signed) > signedSkew {
            return .warning(
                .clock, "clock", "\(found) The server's time is before the latest signed time.",
                "Set the clock of the server."
            )
        }
        return gap > largeSkew ? .failure(.clock, "clock", found) : .warning(.clock, "clock", found)
    }

    private static func gap(_ one: Timestamp, _ other: Timestamp) -> Int {
        abs(one.secondsSinceEpoch - other.secondsSinceEpoch)
    }

    // MARK: Trust

    private static let rootNotice = 14 * 86_400

    static func trust(_ reading: DoctorReading) -> DoctorFinding? {
        let refusals = reading.feeds.compactMap(\.check.refusal).filter(\.isAboutTrustRoot)
        let subject = "trust"
        switch reading.trust {
        case nil: return nil
        case .unreadable(let why)?:
            return .failure(.trust, subject, why, "Name the key, the folder of keys or the trust root with --trust.")
        case .keys(let count)?:
            let sentence = count == 1 ? "One key is trusted. It does" : "\(count) keys are trusted. They do"
            return .ok(.trust, subject, "\(sentence) not expire.")
        case .root(let version, let expires)?:
            if let refusal = refusals.first { return .failure(.trust, subject, refusal.message) }
            if expires <= reading.clock {
                return .failure(.trust, subject, "The trust root \(version) expired at \(expires).")
            }
            let left = expires.secondsSinceEpoch - reading.clock.secondsSinceEpoch
            let found = "The trust root \(version) expires at \(expires), in \(Timestamp.words(seconds: left))."
            return left < rootNotice ? .warning(.trust, subject, found) : .ok(.trust, subject, found)
        }
    }

    // MARK: Machine

    static func port(_ port: DoctorReading.Port) -> DoctorFinding {
        let subject = "\(port.number)"
        switch port.holder {
        case .free:
            let origin = port.isFixed ? "" : ", which serve uses without --port,"
            return .ok(.port, subject, "Port \(port.number)\(origin) is free.")
        case .clientctl:
            return .ok(.port, subject, "The clientctl serve of this store listens on port \(port.number).")
        case .refused(let error):
            return .failure(
                .port, subject, "Port \(port.number) cannot be used: \(error).", "Choose one above 1023 with --port.")
        case .serve(let store): return taken(port, by: "The clientctl serve of \(store)", "Stop it")
        case .other(let name?): return taken(port, by: name, "Stop it")
        case .other(nil): return taken(port, by: "Another program", "Stop that program (`ss -ltnp`)")
        }
    }

    private static func taken(_ port: DoctorReading.Port, by owner: String, _ stop: String) -> DoctorFinding {
        let (subject, advice) = ("\(port.number)", "\(stop), or choose another port with --port.")
        let found = "\(owner) listens on port \(port.number)"
        if port.isFixed { return .failure(.port, subject, "\(found), so serve cannot start.", advice) }
        return .warning(
            .port, subject,
            "\(found). serve uses the next free port, where pages do not find their stored data.", advice)
    }

    static func landlock(_ support: Confinement.Support) -> DoctorFinding {
        switch support {
        case .offered(let version):
            .ok(.landlock, "kernel", "The kernel supports version \(version) of Landlock, so commands are confined.")
        case .missing(let reason):
            .warning(
                .landlock, "kernel", "Commands are not confined: \(reason).",
                "All commands work. To confine them, use such a kernel, with landlock in its list of lsm=.")
        }
    }
}

extension DoctorReading.CheckReading {
    /// The memory that the store would record.
    var memory: FeedMemory? {
        if case .verified(let memory, _) = self { memory } else { nil }
    }

    /// The offer, and whether it is for this device.
    var offer: DoctorReading.OfferReading? {
        if case .verified(_, let offer) = self { offer } else { nil }
    }

    /// The reason why the document was rejected.
    var refusal: UpdateFailure? {
        if case .refused(let failure) = self { failure } else { nil }
    }
}

extension UpdateFailure {
    /// Whether the trust root has expired, and not a document.
    var isAboutTrustRoot: Bool { code == .expired && subject == "trust root" }
}

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
        if wanted.isEmpty {
            // Without an answer of any source, nothing can have been offered.
            let hasAnswer = reading.feeds.contains { if case .verified = $0.check { true } else { false } }
            return hasAnswer
                ? [.ok(.wanted, reading.store.path, "Offered releases arrive on this device.")] : []
        }
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

extension DoctorRule {
    static func source(_ reading: DoctorReading) -> DoctorFinding? {
        guard reading.feeds.isEmpty else { return nil }
        return .warning(
            .source, reading.store.path,
            "No feed is named, so the network was not checked, and a device with these settings does not update itself."
        )
    }

    static func feed(_ feed: DoctorReading.FeedReading, _ reading: DoctorReading) -> [DoctorFinding] {
        [proxy(feed)].compactMap(\.self) + way(feed)
            + [document(feed, reading), offer(feed, reading)].compactMap(\.self)
    }

    private static let networkCodes: Set<FailureCode> = [.networkUnavailable, .httpStatus, .resourcesExhausted]

    // MARK: Connection

    private static func proxy(_ feed: DoctorReading.FeedReading) -> DoctorFinding? {
        guard let proxy = feed.proxy else { return nil }
        let name = "\(proxy.address) (\(proxy.source))"
        switch feed.end {
        case .proxyRefused(let reason)?, .unresolved(let reason)?, .unconnected(let reason)?:
            return .failure(
                .proxy, proxy.address, "The proxy \(name) does not let \(feed.url.display) through: \(reason).")
        default: return .ok(.proxy, proxy.address, "Requests to \(feed.url.display) use the proxy \(name).")
        }
    }

    /// Returns the stages that the test request passed, and the one that failed.
    private static func way(_ feed: DoctorReading.FeedReading) -> [DoctorFinding] {
        guard let end = feed.end else { return [] }
        let (url, host) = (feed.url.display, feed.url.origin.host)
        switch end {
        case .unable(let error):
            return [.failure(.http, url, "No request can be made.", "\(error)")]
        // The finding about the proxy has the reason.
        case .proxyRefused: return []
        case .unresolved where feed.proxy != nil, .unconnected where feed.proxy != nil: return []
        case .unresolved(let reason):
            return [
                .failure(
                    .dns, host, "The name \(host) has no address: \(reason).",
                    "Check the address, the network and the name servers (`resolvectl query \(host)`).")
            ]
        case .unconnected(let reason):
            return passed(feed, [.dns]) + [.failure(.tcp, url, "No server responds at \(url): \(reason).")]
        case .untrusted(let reason):
            let advice =
                "Check the clock first, then the certificate. Name a private certificate authority with --ca-file."
            return passed(feed, [.dns, .tcp])
                + [.failure(.tls, url, "The connection to \(url) is not trusted: \(reason).", advice)]
        case .silent(let reason):
            let advice = "Check the server, and the network in between, for example for a proxy that was not named."
            return passed(feed, [.dns, .tcp, .tls])
                + [.failure(.http, url, "\(url) does not respond: \(reason).", advice)]
        case .answered(let status, _): return passed(feed, [.dns, .tcp, .tls]) + [answer(status, feed)]
        }
    }

    /// Returns the findings about passed stages. Behind a proxy, the name and the connection of the proxy are decisive.
    private static func passed(_ feed: DoctorReading.FeedReading, _ stages: [FindingCode]) -> [DoctorFinding] {
        let (url, host) = (feed.url.display, feed.url.origin.host)
        return stages.compactMap { stage in
            switch stage {
            case .dns where feed.proxy == nil && !isAddress(host): .ok(.dns, host, "The name \(host) has an address.")
            case .tcp where feed.proxy == nil: .ok(.tcp, url, "The server of \(url) can be reached.")
            case .tls where feed.url.scheme == .https: .ok(.tls, url, "The certificate of \(url) is trusted.")
            default: nil
            }
        }
    }

    private static func isAddress(_ host: String) -> Bool {
        host.utf8.contains(UInt8(ascii: ":")) || host.utf8.allSatisfy { $0.isASCIIDigit || $0 == UInt8(ascii: ".") }
    }

    /// Returns the finding about the server's response. The check of the document, which sends the token, takes
    /// precedence.
    private static func answer(_ status: Int, _ feed: DoctorReading.FeedReading) -> DoctorFinding {
        let url = feed.url.display
        let advice = "Check the address, the token and the server. The log of the server has details."
        switch feed.check {
        case .late:
            return .failure(
                .http, url, "The server of \(url) responds too slowly.", "Check the network and the server.")
        case .refused(let failure) where networkCodes.contains(failure.code):
            return .failure(.http, failure.subject, failure.message, advice)
        case .notDone where status == 401 || status == 403:
            return .warning(
                .http, url, "\(url) responds with \(status) to requests without a token.",
                "Name all options that `install` has.")
        case .notDone where status >= 400:
            return .failure(.http, url, "\(url) responds with \(status).", advice)
        case .verified, .refused, .notDone: return .ok(.http, url, "The server of \(url) responds.")
        }
    }

    // MARK: Document

    private static let documentNotice = 3 * 86_400

    private static func document(_ feed: DoctorReading.FeedReading, _ reading: DoctorReading) -> DoctorFinding? {
        let url = feed.url.display
        switch feed.check {
        case .late where feed.end == nil:
            return .failure(.document, url, "\(url) could not be read in time.", "Check the disk that it is on.")
        case .late, .notDone: return nil
        case .refused(let failure):
            // Trust, the store and the network have findings of their own.
            let isElsewhere =
                failure.isAboutTrustRoot || failure.code == .storeDamaged
                || failure.subject.hasPrefix(reading.store.path) || reading.trust == .unreadable(failure.message)
            if isElsewhere || feed.end != nil && networkCodes.contains(failure.code) { return nil }
            return .failure(
                .document, url, failure.message,
                "Devices accept nothing from it until this is corrected. `clientctl feed check` checks the feed itself."
            )
        case .verified(_, let offer) where offer?.version.source == .meteor:
            return .ok(.document, url, "The manifest of \(url) was read; hot code pushes are not signed.")
        case .verified(let memory, _):
            guard feed.isChannel, let channel = memory.followed else {
                return .ok(.document, url, "The offer of \(url) is verified.")
            }
            let left = channel.expires.secondsSinceEpoch - reading.clock.secondsSinceEpoch
            let found =
                "Channel \(channel.name) is verified: sequence \(channel.sequence), until \(channel.expires), for "
                + "\(Timestamp.words(seconds: max(0, left)))."
            return left < documentNotice
                ? .warning(.document, url, found, "The publisher has to sign it again: `clientctl channel renew`.")
                : .ok(.document, url, found)
        }
    }
}

extension DoctorRule {
    // MARK: Folder

    static func folder(_ store: StoreLook) -> DoctorFinding {
        let path = store.path
        switch store.folder {
        case .missing(nil):
            return .warning(
                .storeFolder, path, "There is no store, so nothing in it was checked.",
                "Check the path in --store or CLIENTCTL_STORE. On a device without a client, the first installation creates the store."
            )
        case .missing(let refusal?):
            return .failure(
                .storeFolder, path, "The store does not exist, and this user cannot create it: \(refusal).",
                "Create the folder, and give it to the user who runs clientctl (mode 0700).")
        case .closed(let error):
            return .failure(
                .storeFolder, path, "The store cannot be opened: \(error).",
                "Run this as the owner of the store, and check that it is a folder and its disk is mounted.")
        case .foreign(let why):
            return .failure(.storeFolder, path, why, "Name the right folder with --store.")
        case .usable: break
        }
        if let owner = store.owner, owner != store.user {
            return .failure(
                .storeFolder, path, "The store belongs to user \(owner), and this is user \(store.user).",
                "Run doctor as the owner: `sudo -u '#\(owner)' clientctl doctor --store \(path)`.")
        }
        if let refusal = store.refusals.first {
            let isReadOnly = refusal.isWriteRefusal
            return .failure(
                .storeFolder, path,
                isReadOnly
                    ? "The disk of the store is mounted read-only." : "The store is not writable: \(refusal).",
                isReadOnly
                    ? "Read the kernel's log (`dmesg`), check the disk, and mount it writable."
                    : "Give the folder and its content to this user: `chown -R` and `chmod u+rwX`.")
        }
        if let open = store.openFolders.first {
            return .failure(
                .storeFolder, path, "Every user may write to \(open), so clientctl rejects the store.",
                "Run `chmod o-w` on it, and check its content: `clientctl verify --store \(path)`.")
        }
        return .ok(.storeFolder, path, "The store belongs to this user and is writable.")
    }

    static func parents(_ store: StoreLook) -> DoctorFinding? {
        let trusted: Set<UInt32> = [0, store.user, store.owner ?? 0]
        if store.parents.isEmpty { return nil }
        for parent in store.parents {
            // In a sticky folder, users cannot rename the files of others.
            if parent.mode & 0o002 != 0, parent.mode & 0o1000 == 0 {
                return .warning(
                    .storeParents, parent.path,
                    "Every user may write to \(parent.path), and could replace the store.",
                    "Run `chmod o-w` on it.")
            }
            if !trusted.contains(parent.owner) {
                return .warning(
                    .storeParents, parent.path,
                    "\(parent.path) belongs to user \(parent.owner), who could replace the store.",
                    "Give it to root, or move the store.")
            }
        }
        return .ok(.storeParents, store.path, "No other user can replace the store.")
    }

    // MARK: Space

    static func space(_ store: StoreLook) -> DoctorFinding? {
        guard let space = store.space else { return nil }
        let free = ByteCount(bytes: space.bytes)
        let reserve = ByteCount(bytes: store.reserveBytes)
        let advice = FindingCode.diskSpace.remedy.replacing(
            "clientctl prune", with: "clientctl prune --store \(store.path)")
        if space.bytes < store.reserveBytes {
            return .failure(
                .diskSpace, store.path,
                "\(free) are free. clientctl installs nothing unless at least \(reserve) stay free.", advice)
        }
        // A download and its unpacked files, none of which exist yet.
        let (needed, overflow) = store.largest.bytes.multipliedReportingOverflow(by: 2)
        if overflow || space.bytes - store.reserveBytes < needed {
            return .warning(
                .diskSpace, store.path,
                "\(free) are free, of which \(reserve) must stay free. The next client may not fit if it is as large as the largest one here.",
                advice)
        }
        return .ok(.diskSpace, store.path, "\(free) are free.")
    }

    private static let fewFiles = 64

    static func inodes(_ store: StoreLook) -> DoctorFinding? {
        guard let files = store.space?.files else { return nil }
        let needed = store.largest.files + fewFiles
        if files < needed {
            return .failure(
                .inodes, store.path, "\(files) more files can be created, and a client needs \(needed).")
        }
        // Its serving root has as many names.
        if files / 3 < needed {
            return .warning(
                .inodes, store.path,
                "\(files) more files can be created. A client needs \(needed), and as many again when it is shown.")
        }
        return .ok(.inodes, store.path, "\(files) more files can be created.")
    }

    // MARK: Links

    static func links(_ store: StoreLook) -> [DoctorFinding] {
        guard let links = store.links else { return [] }
        return [linking(links, store), renaming(links, store)]
    }

    private static func linking(_ links: StoreLook.Links, _ store: StoreLook) -> DoctorFinding {
        let price = "so clients are copied and take twice the space"
        if let apart = links.copied {
            return .warning(
                .links, "\(store.path)/\(apart)",
                "\(apart) and serving are on different file systems or mounts, \(price).")
        }
        if let error = links.linking {
            return .warning(.links, store.path, "Hard links are not possible here (\(error)), \(price).")
        }
        return .ok(.links, store.path, "Clients can be linked into their serving roots.")
    }

    private static func renaming(_ links: StoreLook.Links, _ store: StoreLook) -> DoctorFinding {
        if let apart = links.apart {
            return .failure(
                .rename, "\(store.path)/\(apart)",
                "\(apart) and staging are on different file systems or mounts, so no client can be installed.")
        }
        if let error = links.exclusive {
            return .warning(
                .rename, store.path, "The file system does not rename without replacing (RENAME_NOREPLACE: \(error)).",
                "clientctl checks before each rename instead. Let no other program write to the store, or use ext4, btrfs or xfs."
            )
        }
        return .ok(.rename, store.path, "Installations are atomic renames.")
    }

    // MARK: Content

    static func ledger(_ store: StoreLook) -> DoctorFinding? {
        guard case .usable = store.folder else { return nil }
        if let damage = store.damage {
            let advice =
                "Run `clientctl install`, then `clientctl verify --store \(store.path)`. Check the disk (`dmesg`)."
            return store.ledger == nil
                ? .failure(.ledger, store.path, damage, advice)
                : .warning(.ledger, store.path, damage, advice)
        }
        if !store.lost.isEmpty {
            let names = store.lost.map(\.description).joined(separator: ", ")
            return .failure(
                .ledger, store.path,
                "The ledger has clients without a folder or a receipt: \(names).",
                "Run `clientctl install`, which restores what it can. Check which program removes files from the store."
            )
        }
        if let note = store.ledger?.newerNote {
            return .warning(
                .ledger, store.path, "\(note).", "Run the newer clientctl, also in units and containers of this device."
            )
        }
        let count = store.ledger?.entries.count ?? 0
        let clients = count == 1 ? "one client" : "\(count) clients"
        return .ok(
            .ledger, store.path,
            "The ledger is readable and has \(clients). "
                + "\(count == 1 ? "Its" : "Their") files were not compared: `clientctl verify --store \(store.path)` does that."
        )
    }

    static func leftovers(_ store: StoreLook) -> DoctorFinding? {
        guard case .usable = store.folder else { return nil }
        if let worker = store.worker {
            return .ok(.leftovers, store.path, "Process \(worker) is using the store.")
        }
        if store.leftovers == 0 && store.strays.isEmpty {
            return .ok(.leftovers, store.path, "No interrupted run left files.")
        }
        let strays =
            store.strays.isEmpty ? "" : ", and the ledger does not contain \(store.strays.joined(separator: ", "))"
        let staged = store.leftovers == 1 ? "One entry is" : "\(store.leftovers) entries are"
        return .warning(
            .leftovers, store.path, "\(staged) in staging\(strays). A run was interrupted, or one is active.",
            "If no installation is running, the next one removes them. If they stay, check which user owns these files."
        )
    }
}
