import ArchiveSource
import BundleCore
import BundleDisk
import BundleValues

/// What a reading means: each side of a device judged by itself. Pure rules.
package enum DoctorRule {
    /// The findings about a device, those about its store first.
    package static func findings(_ reading: DoctorReading) -> [DoctorFinding] {
        let store = reading.store
        return [clock(reading), folder(store), parents(store), space(store), inodes(store)].compactMap(\.self)
            + links(store)
            + [ledger(store), clients(reading), session(reading), screen(reading), leftovers(store), trust(reading)]
            .compactMap(\.self)
            + reading.feeds.flatMap { feed($0, reading) } + wanted(reading)
            + [deviceId(reading), reading.port.map(port), landlock(reading.confinement)].compactMap(\.self)
    }

    /// The worst of `findings`; `ok` where there is none.
    package static func worst(_ findings: [DoctorFinding]) -> DoctorFinding.Severity {
        findings.map(\.severity).max() ?? .ok
    }

    // MARK: Clock

    private static let signedSkew = 300
    private static let smallSkew = 120
    private static let largeSkew = 86_400

    static func clock(_ reading: DoctorReading) -> DoctorFinding {
        let clock = reading.clock
        let memories = [reading.store.ledger?.feed] + reading.feeds.map { $0.check.memory }
        // Time 0 asks for no more than what was signed, and the age of this program.
        let start = Timestamp(clamping: 0)
        let signed =
            memories.compactMap(\.self).map { TrustedTime.at(start, $0) }.max() ?? TrustedTime.at(start, FeedMemory())
        let advice = "Set the clock and keep it right with NTP, such as `timedatectl set-ntp true`."
        if clock < signed, Self.gap(clock, signed) > signedSkew {
            return .failure(
                .clock, "clock",
                "The clock says \(clock), \(words(Self.gap(clock, signed))) before the latest time that was signed (\(signed)).",
                advice)
        }
        let told = reading.feeds.compactMap { feed in feed.date.map { (feed.url.display, $0) } }
        guard let (url, date) = told.max(by: { Self.gap(clock, $0.1) < Self.gap(clock, $1.1) }) else {
            return .ok(.clock, "clock", "The clock says \(clock), not before what was signed. No server told its time.")
        }
        let gap = Self.gap(clock, date)
        if gap <= smallSkew {
            return .ok(.clock, "clock", "The clock says \(clock), as that of \(url) does.")
        }
        let side = clock < date ? "behind" : "ahead of"
        let found = "The clock says \(clock), \(words(gap)) \(side) that of \(url) (\(date))."
        if date < signed, Self.gap(date, signed) > signedSkew {
            return .warning(
                .clock, "clock", "\(found) The server's time is before what was signed.", "Set the clock of the server."
            )
        }
        return gap > largeSkew ? .failure(.clock, "clock", found, advice) : .warning(.clock, "clock", found, advice)
    }

    private static func gap(_ one: Timestamp, _ other: Timestamp) -> Int {
        abs(one.secondsSinceEpoch - other.secondsSinceEpoch)
    }

    /// Seconds in the largest unit of which there are two.
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
            let advice = "The publisher signs the next one: `clientctl trust renew`, then `trust publish`."
            if let refusal = refusals.first { return .failure(.trust, subject, refusal.message, advice) }
            if expires <= reading.clock {
                return .failure(.trust, subject, "The trust root \(version) expired at \(expires).", advice)
            }
            let left = expires.secondsSinceEpoch - reading.clock.secondsSinceEpoch
            let found = "The trust root \(version) expires at \(expires), in \(words(left))."
            return left < rootNotice ? .warning(.trust, subject, found, advice) : .ok(.trust, subject, found)
        }
    }

    // MARK: The machine

    static func port(_ port: DoctorReading.Port) -> DoctorFinding {
        let subject = "\(port.number)"
        switch port.holder {
        case .free: return .ok(.port, subject, "Port \(port.number) is free.")
        case .clientctl: return .ok(.port, subject, "A clientctl serve listens on port \(port.number).")
        case .refused(let error):
            return .failure(
                .port, subject, "Port \(port.number) cannot be used: \(error).", "Choose one above 1023 with --port.")
        case .other where port.isFixed:
            return .failure(
                .port, subject, "Another program listens on port \(port.number), so serve cannot start.",
                "End that program (`ss -ltnp`), or choose another port with --port.")
        case .other:
            return .warning(
                .port, subject,
                "Another program listens on port \(port.number). serve takes the next free one, where pages do not find what they "
                    + "stored before.", "End that program (`ss -ltnp`), or choose another port with --port.")
        }
    }

    static func landlock(_ support: Confinement.Support) -> DoctorFinding {
        switch support {
        case .offered(let version):
            .ok(.landlock, "kernel", "The kernel has version \(version) of Landlock, so commands are confined.")
        case .missing(let reason):
            .warning(
                .landlock, "kernel", "Commands are not confined: \(reason).",
                "Everything works. To have commands confined, use such a kernel, with landlock in its list of lsm=.")
        }
    }
}

extension DoctorReading.Check {
    /// What would be remembered.
    var memory: FeedMemory? {
        if case .verified(let memory, _) = self { memory } else { nil }
    }

    /// What is offered, and whether it is for this device.
    var offer: DoctorReading.Offer? {
        if case .verified(_, let offer) = self { offer } else { nil }
    }

    /// Why nothing would be.
    var refusal: UpdateFailure? {
        if case .refused(let failure) = self { failure } else { nil }
    }
}

extension UpdateFailure {
    /// Whether the trust root is out of date, and no document.
    var isAboutTrustRoot: Bool { code == .expired && subject == "trust root" }
}
