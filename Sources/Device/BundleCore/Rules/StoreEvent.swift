import BundleFormats
package import BundleValues

/// An event of a store, as `clientctl events` reports it.
package struct StoreEvent: Sendable, Equatable {
    /// The kind of an event. The words are part of the JSON output.
    package enum Kind: String, Sendable, CaseIterable {
        /// A client was installed.
        case installed
        /// A client was removed.
        case removed
        /// A client was launched; `detail` is `trial` if it awaits its confirmation.
        case launched
        /// A client was confirmed.
        case confirmed
        /// A start of a client failed; `detail` is the failure.
        case failed
        /// A client was blocked; `detail` is the reason.
        case blocked
        /// A client was unblocked.
        case unblocked
        /// The next client changed.
        case selected
        /// An offer waits for its download; `detail` is the reason.
        case waiting
        /// The device received a newer channel file; `detail` is its sequence.
        case channel
    }

    package let kind: Kind
    /// The client; nil for the channel.
    package let name: ClientName?
    /// The time, if the ledger has it.
    package let at: Timestamp?
    /// Details for people.
    package let detail: String?

    init(_ kind: Kind, _ name: ClientName?, at: Timestamp? = nil, detail: String? = nil) {
        self.kind = kind
        self.name = name
        self.at = at
        self.detail = detail
    }

    /// Returns the events between two ledgers, causes before effects.
    package static func between(_ before: Ledger, and after: Ledger) -> [StoreEvent] {
        installations(from: before, to: after) + starts(from: before, to: after) + choices(from: before, to: after)
    }

    private static func installations(from before: Ledger, to after: Ledger) -> [StoreEvent] {
        let gone = before.entries.filter { after.entry($0.version) == nil }
        let come = after.entries.filter { before.entry($0.version) != $0 }
        return gone.map { StoreEvent(.removed, .installed($0.version)) }
            + come.map { StoreEvent(.installed, .installed($0.version), at: $0.installedAt) }
    }

    private static func starts(from before: Ledger, to after: Ledger) -> [StoreEvent] {
        let failed = after.records.flatMap { record in
            let known = before.record(of: record.version)?.failures ?? []
            let new =
                record.failures.starts(with: known) ? record.failures.dropFirst(known.count) : record.failures[...]
            return new.map { StoreEvent(.failed, .installed(record.version), at: $0.at, detail: $0.description) }
        }
        let settled = failed + blocks(from: before, to: after)
        guard let launch = after.launch else { return settled }
        let isSame = before.launch?.tokenSha256 == launch.tokenSha256 && before.launch?.at == launch.at
        var events: [StoreEvent] = []
        if !isSame {
            events.append(StoreEvent(.launched, launch.name, at: launch.at, detail: launch.isTrial ? "trial" : nil))
        }
        if launch.verdict == .good, !isSame || before.launch?.verdict != .good {
            let since = launch.name.version.flatMap(after.record)?.goodSince
            events.append(StoreEvent(.confirmed, launch.name, at: since))
        }
        // The failure of an earlier launch precedes this launch; the failure of this launch follows it.
        return isSame || launch.verdict != .faulty ? settled + events : events + settled
    }

    private static func blocks(from before: Ledger, to after: Ledger) -> [StoreEvent] {
        let blocked = after.blocks.filter { before.block(on: $0.version) == nil }
        let freed = before.blocks.filter { after.block(on: $0.version) == nil }
        return blocked.map { StoreEvent(.blocked, .installed($0.version), at: $0.since, detail: $0.reason) }
            + freed.map { StoreEvent(.unblocked, .installed($0.version)) }
    }

    private static func choices(from before: Ledger, to after: Ledger) -> [StoreEvent] {
        var events: [StoreEvent] = []
        if let channel = after.feed.followed, channel.sequence != before.feed.followed?.sequence {
            events.append(
                StoreEvent(.channel, nil, at: channel.issuedAt, detail: "\(channel.name) \(channel.sequence)"))
        }
        if let waiting = after.waiting,
            waiting.version != before.waiting?.version || waiting.reason != before.waiting?.reason
        {
            events.append(
                StoreEvent(
                    .waiting, .installed(waiting.version), at: waiting.since,
                    detail: "\(waiting.reason.rawValue): \(waiting.detail)"))
        }
        if after.scheduled != before.scheduled { events.append(StoreEvent(.selected, after.scheduled)) }
        return events
    }
}

extension Ledger {
    /// The client that is launched next.
    package var scheduled: ClientName { pending ?? current }
}
