import BundleCore
import BundleValues

extension ShellState {
    /// Applies an event of a page whose launch has `token`.
    mutating func apply(
        _ event: PageInput, of token: LaunchToken, at now: Duration, time: Timestamp
    ) -> [Action] {
        switch event {
        case .confirm:
            // The verdict is written at once and includes the report.
            _ = recordReport(token)
            return confirm(token, at: now)
        case .fail(let what): return fail(token, .reported, what, at: now, time: time)
        case .failTrial(let what): return recordReport(token) + failTrial(token, what, at: now, time: time)
        case .lose(let what):
            guard let launched, launched.token == token, trial != nil else { return [] }
            return hasPageReported ? fail(token, .reported, what, at: now, time: time) : leaveSilentClient(launched)
        case .leave(let place, let report):
            guard let launched, launched.token == token else { return [] }
            busy.leave(load: report.load)
            // Only its timeout decides a second trial, and that continues.
            if !launched.wasReportedFailed { trial?.leave(for: place, report, at: now) }
            expected?.leave(for: place, report, at: now)
            return recordReport(token)
        case .vanish(let load):
            guard let launched, launched.token == token else { return [] }
            busy.leave(load: load)
            if !launched.wasReportedFailed { trial?.vanish(load: load, at: now) }
            expected?.vanish(load: load, at: now)
            return []
        case .error(let text, let isGrave): return addPageError(text, of: token, isGrave: isGrave)
        case .show(let isShown, let report):
            guard token == launched?.token else { return [] }
            trial?.show(isShown, report, at: now)
            expected?.show(isShown, report, at: now)
            return recordReport(token)
        case .busy(let isBusy, let report, let mayActivate):
            guard token == launched?.token else { return [] }
            busy.report(isBusy, load: report.load, number: report.number, at: now)
            return isBusy ? [] : inspect(then: mayActivate ? .activate : .nothing)
        }
    }

    mutating func timerFired(at now: Duration, time: Timestamp) -> [Action] {
        guard let launched else { return [] }
        switch trial?.wake(at: now, afterReports: hasPageReported) {
        case .failed(let cause, let what)?: return fail(launched.token, cause, what, at: now, time: time)
        case .silent?: return leaveSilentClient(launched)
        case nil: break
        }
        guard case .failed(_, let what)? = expected?.wake(at: now, afterReports: true) else { return [] }
        expected = nil
        return [.report(.unconfirmed(launched.name, what))]
    }

    private mutating func addPageError(_ text: String, of token: LaunchToken, isGrave: Bool) -> [Action] {
        guard let launched, launched.token == token, pageErrors.count < Self.mostPageErrors,
            pageErrors.insert(text).inserted
        else { return [] }
        if isGrave { trial?.addPageError(text) }
        return [.report(.complained(launched.name, text))]
    }

    /// Records that a page with `token` has reported, so a browser runs the pages of this shell. From now on silence is a
    /// failure of the running client, and clients that were skipped for their silence are available again.
    private mutating func recordReport(_ token: LaunchToken) -> [Action] {
        guard let launched, launched.token == token else { return [] }
        hasPageReported = true
        if !silent.isEmpty { (silent, ledger) = ([], nil) }
        guard trial?.recordReport() == true, launched.isRecorded else { return [] }
        return [.recordReport(launched)]
    }

    /// Replaces a client whose page was loaded and never reported, while no page of another client has. The browser may show
    /// something other than the page, so there is no verdict.
    private mutating func leaveSilentClient(_ launch: Launch) -> [Action] {
        silent.insert(launch.name)
        return (launch.isRecorded ? [.write(.abandoned, launch)] : []) + prepare(.leave(.silent, .nothing))
    }

    /// Applies a failure that the page reports itself. It fails one start of a client. Only the timeout decides a second trial,
    /// so a program that imitates the page cannot block a client.
    private mutating func failTrial(
        _ token: LaunchToken, _ what: String, at now: Duration, time: Timestamp
    ) -> [Action] {
        guard let launched else { return [.refuse(ShellError.notStarted)] }
        guard token == launched.token else { return [.refuse(Self.foreignToken(running: launched.name))] }
        if trial == nil { return [.refuse(ShellError.notOnTrial)] }
        return launched.wasReportedFailed
            ? addPageError(what, of: token, isGrave: true)
            : fail(token, .reported, "the page said: \(what)", at: now, time: time)
    }

    private mutating func confirm(_ token: LaunchToken, at now: Duration) -> [Action] {
        guard let launched else { return [.refuse(ShellError.notStarted)] }
        guard token == launched.token else { return [.refuse(Self.foreignToken(running: launched.name))] }
        if let failure { return [.refuse(Self.tooLate(launched.name, failure))] }
        expected = nil
        // The startup timeout ends with the confirmation, and the trial with the check.
        if trial != nil, checksHealth || launched.requiresEndpoints {
            return trial?.confirm(at: now) == true ? [.checkHealth(launched)] : []
        }
        // A launch without a record is of a confirmed client. A pending verdict came before this confirmation.
        return launched.isRecorded && pending?.launch.token != token ? [.write(.good, launched)] : []
    }

    /// Ends a trial whose page has confirmed its start. The result for an earlier launch is ignored.
    mutating func healthChecked(
        _ result: HealthResult, _ token: LaunchToken, at now: Duration, time: Timestamp
    ) -> [Action] {
        guard let launched, launched.token == token, trial != nil, failure == nil, pending?.launch.token != token
        else { return [] }
        switch result {
        case .passed: return [.write(.good, launched)]
        case .failed(let reason): return fail(token, .reported, reason, at: now, time: time)
        }
    }

    /// Fails the launch: the ledger records it first, then another client is shown in the same window.
    private mutating func fail(
        _ token: LaunchToken, _ cause: StartFailure.Cause, _ what: String, at now: Duration, time: Timestamp
    ) -> [Action] {
        guard let launched, launched.token == token else { return [] }
        if let failure { return prepare(.leave(.failed(failure), .nothing)) }
        if pending?.launch.token == token { return [] }
        let detail = trial?.failureDetail.map { "; the page said: \($0)" } ?? ""
        trial = nil
        failed = (launched.name, at: now, consequence: nil)
        let failure = StartFailure(cause, detail: what + detail, at: time, retryAt: retryTime(after: time))
        return [.write(.faulty(failure), launched)]
    }

    /// Returns the end of the retry pause that begins at `time`, rounded up to whole seconds.
    private func retryTime(after time: Timestamp) -> Timestamp {
        let (seconds, fraction) = retryPause.components
        let pause = Int(min(seconds, Int64(Timestamp.latestSecond))) + (fraction > 0 ? 1 : 0)
        return Timestamp(clamping: time.secondsSinceEpoch + pause)
    }

    /// Applies the result of writing a verdict. A full disk neither keeps a broken client on the screen nor undoes a confirmed
    /// one: the verdict takes effect at once and is written when the disk accepts it.
    mutating func written(_ verdict: Verdict, _ launch: Launch, _ writing: Writing) -> [Action] {
        var actions: [Action] = []
        switch (writing, verdict) {
        case (.failed(let error), .good): return [.refuse(error)]
        case (.failed(let error), _): return [.report(.failed(UpdateFailure(error)))]
        case (.refused(let refusal), .abandoned): return [.report(.failed(refusal))]
        case (.refused(let refusal), _):
            pending = PendingVerdict(verdict: verdict, launch: launch)
            actions.append(.report(.failed(refusal)))
        case (.done(_, let consequence), _): failed?.consequence = consequence
        }
        switch verdict {
        case .good:
            let errors = trial?.errorCount ?? 0
            trial = nil
            if case .done(wasKnown: true, _) = writing { return [] }
            let warning = "it confirmed its start after it had reported \(counted(errors, "error"))"
            return actions + [.report(.confirmed(launch.name))]
                + (errors > 0 ? [.report(.complained(launch.name, warning))] : []) + [.retain]
        case .faulty(let failure): return actions + prepare(.leave(.failed(failure), .nothing))
        case .abandoned: return []
        }
    }

    // MARK: Messages

    /// Returns the reason for the change from `name` to `other`, with the consequence for `name`.
    func reason(_ departure: Departure, leaving name: ClientName, for other: ClientName) -> UpdateFailure {
        switch departure {
        case .failed(let failure):
            UpdateFailure(
                .healthFailed, subject: "\(name)",
                name == other
                    ? "\(name) failed to start, and is tried once more, since nothing else can be shown: \(failure)."
                    : "\(name) was rolled back to \(other): \(failure).\(consequence(of: failure))")
        case .recalled(let reason):
            UpdateFailure(.versionBlocked, subject: "\(name)", "\(name) was replaced by \(other), because \(reason).")
        case .silent:
            UpdateFailure(
                .healthFailed, subject: "\(name)",
                "\(name) was replaced by \(other) without a verdict, because no page has reported to this shell and the browser "
                    + "may show something else. \(name) is tried again when a page reports.")
        }
    }

    /// Returns the sentence about the client that failed last; empty if the ledger has not recorded the failure.
    private func consequence(of failure: StartFailure) -> String {
        switch failed?.consequence {
        case .retried?: " It \(failure.sequel)."
        case .blocked(let count)?:
            " It is blocked after \(count) failed starts; `clientctl unblock` lets it run again."
        case nil: ""
        }
    }

    private static func foreignToken(running name: ClientName) -> UpdateFailure {
        UpdateFailure(
            .versionMismatch, subject: "\(name)",
            "The token is from another launch than the running one of \(name). A verdict is valid for its own launch only."
        )
    }

    private static func tooLate(_ name: ClientName, _ failure: StartFailure) -> UpdateFailure {
        UpdateFailure(.healthFailed, subject: "\(name)", "\(name) has already failed: \(failure). Launch again.")
    }
}
