package import BundleValues

/// What happened to a store, as whoever watches it is told.
package struct StoreEvent: Sendable, Equatable {
    /// What it was; the words stand in answers.
    package enum Kind: String, Sendable, CaseIterable {
        /// A client was installed.
        case installed
        /// A client was removed.
        case removed
        /// A client was launched; `detail` is `trial` where it has yet to prove itself.
        case launched
        /// A client proved itself.
        case confirmed
        /// A start of a client failed; `detail` says how.
        case failed
        /// A client must not run any more; `detail` says why.
        case blocked
        /// A client may run again.
        case unblocked
        /// Another client than before is launched next.
        case selected
        /// The channel has a newer document; `detail` is its sequence.
        case channel
    }

    /// What it was.
    package let kind: Kind
    /// Which client; nil for the channel.
    package let name: ClientName?
    /// When, where the store knows.
    package let at: Timestamp?
    /// More of it, for people; nil where there is no more.
    package let detail: String?

    init(_ kind: Kind, _ name: ClientName?, at: Timestamp? = nil, detail: String? = nil) {
        self.kind = kind
        self.name = name
        self.at = at
        self.detail = detail
    }

    /// What led from one ledger to the next, causes before effects. Pure.
    package static func between(_ before: Ledger, _ after: Ledger) -> [StoreEvent] {
        installations(before, after) + starts(before, after) + choices(before, after)
    }

    private static func installations(_ before: Ledger, _ after: Ledger) -> [StoreEvent] {
        let gone = before.entries.filter { after.entry($0.version) == nil }
        let come = after.entries.filter { before.entry($0.version) != $0 }
        return gone.map { StoreEvent(.removed, .installed($0.version)) }
            + come.map { StoreEvent(.installed, .installed($0.version), at: $0.installedAt) }
    }

    private static func starts(_ before: Ledger, _ after: Ledger) -> [StoreEvent] {
        let failed = after.records.flatMap { record in
            let known = before.record(of: record.version)?.failures ?? []
            let new =
                record.failures.starts(with: known) ? record.failures.dropFirst(known.count) : record.failures[...]
            return new.map { StoreEvent(.failed, .installed(record.version), at: $0.at, detail: $0.description) }
        }
        let settled = failed + blocks(before, after)
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
        // A start that failed was seen before the one that follows it; one of the launch itself came after it.
        return isSame || launch.verdict != .faulty ? settled + events : events + settled
    }

    private static func blocks(_ before: Ledger, _ after: Ledger) -> [StoreEvent] {
        let blocked = after.blocks.filter { before.block(on: $0.version) == nil }
        let freed = before.blocks.filter { after.block(on: $0.version) == nil }
        return blocked.map { StoreEvent(.blocked, .installed($0.version), at: $0.since, detail: $0.reason) }
            + freed.map { StoreEvent(.unblocked, .installed($0.version)) }
    }

    private static func choices(_ before: Ledger, _ after: Ledger) -> [StoreEvent] {
        var events: [StoreEvent] = []
        if let channel = after.feed.followed, channel.sequence != before.feed.followed?.sequence {
            events.append(
                StoreEvent(.channel, nil, at: channel.issuedAt, detail: "\(channel.name) \(channel.sequence)"))
        }
        if after.scheduled != before.scheduled { events.append(StoreEvent(.selected, after.scheduled)) }
        return events
    }
}

extension Ledger {
    /// The client that was chosen to be launched next.
    package var scheduled: ClientName { pending ?? current }
}
