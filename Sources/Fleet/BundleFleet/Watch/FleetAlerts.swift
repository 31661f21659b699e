package import BundleFormats
package import BundleValues

/// The kinds of problems that `fleet watch` announces.
package enum AlertKind: String, Sendable, CaseIterable {
    /// A device sends nothing.
    case silent
    /// Devices blocked a release after failed starts.
    case blocked
    /// Another key signs the messages of a device.
    case conflict
    /// A channel expires soon, or has expired.
    case expires
    /// The roster cannot be read.
    case roster
    /// The feed cannot be read.
    case feed
}

/// The problems of a fleet at one time: by kind, the subjects with their names. The problems of an absent kind are not known.
package struct FleetProblems: Sendable {
    fileprivate var found: [AlertKind: [String: String]] = [:]
    /// The devices of the roster.
    fileprivate var devices: Set<String> = []

    package init() {}

    /// Adds the problems of the devices of a roster.
    package mutating func add(_ rows: [RosterRow], at now: Timestamp) {
        var (silent, blocked, conflicts) = ([String: String](), [String: Int](), [String: String]())
        for row in rows {
            for reason in row.reasons(at: now) {
                switch reason.kind {
                case .silent: silent[row.post.device] = row.displayName
                case .conflict: conflicts[row.post.device] = row.displayName
                case .blocked:
                    let version = reason.key.dropping(prefix: "blocked:").map { UntrustedName.display($0, limit: 40) }
                    blocked[version ?? "a release", default: 0] += 1
                default: break
                }
            }
        }
        devices = Set(rows.map(\.post.device))
        (found[.silent], found[.conflict]) = (silent, conflicts)
        // A release is one subject, however many devices block it.
        found[.blocked] = Dictionary(
            blocked.map { ($0.key, "\($0.key) on \(counted($0.value, "device"))") },
            uniquingKeysWith: { first, _ in first })
        found[.roster] = [:]
    }

    /// Adds the channel `document`, which is a problem if it expires before `limit`.
    package mutating func add(_ document: ChannelDocument, expiringBefore limit: Timestamp, at now: Timestamp) {
        let verb = document.expires <= now ? "expired" : "expires"
        found[.expires] =
            document.expires <= limit ? [document.channel: "\(document.channel) \(verb) at \(document.expires)"] : [:]
        found[.feed] = [:]
    }

    /// Adds a roster or a feed that cannot be read.
    package mutating func add(_ kind: AlertKind, _ failure: UpdateFailure) {
        found[kind] = [kind.rawValue: UntrustedName.display(failure.message, limit: 400)]
    }
}

/// A change of the problems of one kind.
package struct FleetAlert: Sendable, Equatable {
    package let kind: AlertKind
    /// The names of the subjects that became a problem, and of those that are none any longer.
    package let began: [String]
    package let ended: [String]
    /// The number of problems of the kind.
    package let present: Int

    private static let mostNames = 5

    /// The variables for a command.
    package var facts: [String: String] {
        [
            "ALERT_KIND": kind.rawValue, "ALERT_STATE": state, "ALERT_COUNT": "\(present)", "ALERT_TEXT": text,
        ]
    }

    package var json: JSONObject {
        [
            "kind": .string(kind.rawValue), "state": .string(state), "count": .integer(present), "text": .string(text),
            "began": .array(began.map(JSONValue.string)), "ended": .array(ended.map(JSONValue.string)),
        ]
    }

    /// `began`, `ended`, or `changed` for both.
    private var state: String { began.isEmpty ? "ended" : ended.isEmpty ? "began" : "changed" }

    /// The change in one line.
    package var text: String {
        let parts = [
            began.isEmpty ? nil : Self.begin(kind, began.count) + Self.list(began),
            ended.isEmpty
                ? nil : Self.end(kind, ended.count) + Self.list([.roster, .feed].contains(kind) ? [] : ended),
        ].compactMap(\.self)
        return parts.joined(separator: " ")
    }

    private static func list(_ names: [String]) -> String {
        let shown = names.prefix(mostNames).joined(separator: ", ")
        let left = names.count - mostNames
        if shown.isEmpty { return "." }
        // A message of a failure ends with a period.
        return ": \(shown)\(left > 0 ? ", and \(left) more" : "")\(shown.hasSuffix(".") ? "" : ".")"
    }

    private static func begin(_ kind: AlertKind, _ count: Int) -> String {
        switch kind {
        case .silent: "\(counted(count, "device")) became silent"
        case .blocked: "Devices blocked \(counted(count, "release"))"
        case .conflict: "Another key signs for \(counted(count, "device"))"
        case .expires: "\(counted(count, "channel")) must be signed again"
        case .roster: "The roster cannot be read"
        case .feed: "The feed cannot be read"
        }
    }

    private static func end(_ kind: AlertKind, _ count: Int) -> String {
        switch kind {
        case .silent: "\(counted(count, "device")) \(count == 1 ? "is" : "are") no longer silent"
        case .blocked: "No device blocks \(counted(count, "release")) any longer"
        case .conflict: "No other key signs for \(counted(count, "device")) any longer"
        case .expires: "\(counted(count, "channel")) \(count == 1 ? "was" : "were") signed again"
        case .roster: "The roster can be read again"
        case .feed: "The feed can be read again"
        }
    }
}

/// Decides which changes of the problems of a fleet are announced: all, but each kind at most once in a pause. A problem that begins and ends
/// within the pause is not announced.
package struct FleetAlerts: Sendable {
    private let pause: Duration
    private var announced: [AlertKind: [String: String]] = [:]
    private var last: [AlertKind: Timestamp] = [:]
    /// What was announced before the last alert of a kind.
    private var before: [AlertKind: [String: String]] = [:]

    package init(pause: Duration) { self.pause = pause }

    /// Returns the alerts for `problems`, at most one for each kind.
    package mutating func alerts(for problems: FleetProblems, at now: Timestamp) -> [FleetAlert] {
        AlertKind.allCases.compactMap { kind in
            guard let present = problems.found[kind] else { return nil }
            let before = announced[kind] ?? [:]
            // A device that was forgotten has not recovered.
            func name(ofEnded subject: String) -> String? {
                let isForgotten = [.silent, .conflict].contains(kind) && !problems.devices.contains(subject)
                return before[subject].map { isForgotten ? "\($0) (forgotten)" : $0 }
            }
            let began = present.keys.sorted().filter { subject in
                guard let known = before[subject] else { return true }
                // A channel that expires soon, and then has expired, is two changes.
                return kind == .expires && known != present[subject]
            }.compactMap { present[$0] }
            let gone = before.keys.sorted().filter { present[$0] == nil }
            let ended = kind == .expires ? gone : gone.compactMap(name(ofEnded:))
            if began.isEmpty && ended.isEmpty { return nil }
            if let last = last[kind], now >= last,
                Duration.seconds(now.secondsSinceEpoch - last.secondsSinceEpoch) < pause
            {
                return nil
            }
            (announced[kind], last[kind], self.before[kind]) = (present, now, before)
            return FleetAlert(kind: kind, began: began, ended: ended, present: present.count)
        }
    }

    /// Takes the last alert of a kind back, because nobody received it. The next one after the pause contains its changes.
    package mutating func retract(_ kind: AlertKind) { announced[kind] = before[kind] }
}
