import BundleFormats
import BundleCore
import BundleDisk
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
                "The clock says \(clock), \(words(Self.gap(clock, signed))) before the latest signed time (\(signed)).")
        }
        let dates = reading.feeds.compactMap { feed in feed.date.map { (feed.url.display, $0) } }
        guard let (url, date) = dates.max(by: { Self.gap(clock, $0.1) < Self.gap(clock, $1.1) }) else {
            if Self.gap(clock, signed) > plausible {
                return .warning(
                    .clock, "clock",
                    "The clock says \(clock), \(words(Self.gap(clock, signed))) after the latest signed time (\(signed)). No server returned its time."
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
        let found = "The clock says \(clock), \(words(gap)) \(side) that of \(url) (\(date))."
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

    /// Returns the duration in the largest unit of which there are at least two.
    static func words(_ seconds: Int) -> String {
        for (unit, length) in [("days", 86_400), ("hours", 3600), ("minutes", 60)] where seconds >= 2 * length {
            return "\(seconds / length) \(unit)"
        }
        return "\(seconds) seconds"
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
            let found = "The trust root \(version) expires at \(expires), in \(words(left))."
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
