import BundleValues

/// Derives the reports of a device from a change of its ledger. A receiver gets nothing beyond them.
enum ReportRule {
    /// Returns the facts between two ledgers, causes before effects. Only archives are reported: a Meteor version is
    /// a digest of content, so the number of labels would have no limit.
    static func facts(from before: Ledger, to after: Ledger) -> [ReportFact] {
        let events = StoreEvent.between(before, and: after)
        return events.compactMap { fact(of: $0, from: before, to: after) } + rollBackFacts(from: before, to: after)
    }

    private static func fact(of event: StoreEvent, from before: Ledger, to after: Ledger) -> ReportFact? {
        guard let name = event.name?.version, let version = name.semantic else { return nil }
        switch event.kind {
        case .installed:
            guard before.entry(name) == nil, let entry = after.entry(name) else { return nil }
            return ReportFact(
                .installed, version, previous: before.current.version?.semantic,
                route: entry.route.flatMap { DeviceReport.UpdateRoute(rawValue: $0.word) })
        case .launched:
            guard after.launch?.isTrial == true else { return nil }
            return ReportFact(.started, version, previous: after.previous?.version?.semantic)
        case .confirmed:
            guard after.launch?.isTrial == true else { return nil }
            let hasFailed = after.reports?.hasReported(.failed, of: version) == true
            return ReportFact(.confirmed, version, code: hasFailed ? .afterFailure : nil)
        case .failed:
            return ReportFact(.failed, version, code: after.record(of: name)?.failures.last.map { Self.code($0.cause) })
        case .blocked:
            return ReportFact(.blocked, version, code: after.block(on: name).map { Self.code($0.cause) })
        case .waiting:
            return ReportFact(
                .waiting, version, previous: after.current.version?.semantic,
                code: (after.waiting?.reason).flatMap { DeviceReport.Code(rawValue: $0.rawValue) })
        case .removed, .unblocked, .selected, .channel: return nil
        }
    }

    /// Returns the fact that the device rolls back from a client that failed, was recalled or was left by an
    /// operator.
    private static func rollBackFacts(from before: Ledger, to after: Ledger) -> [ReportFact] {
        let left = before.scheduled
        guard after.scheduled != left, let name = left.version, let version = name.semantic else { return [] }
        let target = after.scheduled.version?.semantic
        if after.block(on: name)?.cause == .byHand {
            return [ReportFact(.rolledBack, version, previous: target, code: .byHand)]
        }
        if let failure = after.record(of: name)?.failures.last {
            return [ReportFact(.rolledBack, version, previous: target, code: Self.code(failure.cause))]
        }
        switch after.feed.withdrawal(of: version) {
        case .recalled, .belowFloor: return [ReportFact(.rolledBack, version, previous: target, code: .recalled)]
        case .leftOut, nil: return []
        }
    }

    private static func code(_ cause: StartFailure.Cause) -> DeviceReport.Code {
        switch cause {
        case .notConfirmed: .notConfirmed
        case .interrupted: .interrupted
        case .reported, .blankScreen: .reported
        case .notPrepared: .notPrepared
        }
    }

    private static func code(_ cause: Ledger.Block.Cause) -> DeviceReport.Code {
        switch cause {
        case .failedStarts: .failedStarts
        case .byHand: .byHand
        case .damagedFiles: .notPrepared
        }
    }
}

/// A report without its id.
struct ReportFact: Sendable, Equatable {
    let fact: DeviceReport.Fact
    let version: SemanticVersion
    let previous: SemanticVersion?
    let route: DeviceReport.UpdateRoute?
    let code: DeviceReport.Code?

    init(
        _ fact: DeviceReport.Fact, _ version: SemanticVersion, previous: SemanticVersion? = nil,
        route: DeviceReport.UpdateRoute? = nil, code: DeviceReport.Code? = nil
    ) {
        self.fact = fact
        self.version = version
        self.previous = previous
        self.route = route
        self.code = code
    }
}

extension Ledger {
    /// Returns this ledger with the reports of the change from `before`, if the device reports. `newID` returns a new
    /// id for each.
    func recordingReports(since before: Ledger, newID: () -> String) -> Ledger {
        guard reports != nil, before.reports != nil else { return self }
        var next = self
        for fact in ReportRule.facts(from: before, to: self) {
            next.reports?.add(
                DeviceReport(
                    id: newID(), fact: fact.fact, version: fact.version, channel: feed.followed?.name,
                    previous: fact.previous, route: fact.route, code: fact.code))
        }
        return next
    }
}
