package import BundleValues

/// A reason for which a person must look at a device.
package struct RosterReason: Sendable, Equatable {
    /// The kinds of reasons, the most important one first.
    package enum Kind: Int, Sendable, CaseIterable, Comparable {
        case failed, blocked, nothingShown, silent, clock, disk, conflict, oldMessages, check, shell, screen, finding

        package static func < (left: Kind, right: Kind) -> Bool { left.rawValue < right.rawValue }

        /// Whether the device gets no updates, or does not show its client.
        package var isUrgent: Bool { self <= .check }

        /// The kind as the cause for which a device is behind.
        var cause: String {
            switch self {
            case .failed: "failed"
            case .blocked: "blocked"
            case .nothingShown: "show nothing"
            case .silent: "silent"
            case .clock: "clock"
            case .disk: "disk"
            case .conflict: "conflict"
            case .oldMessages: "old messages"
            case .check: "cannot update"
            case .shell: "need a newer shell"
            case .screen: "locked"
            case .finding: "with other findings"
            }
        }
    }

    package let kind: Kind
    /// The name of the reason in the record of the times at which reasons began, without spaces.
    let key: String
    /// The reason in a few words.
    package let words: String
    /// What to do, in one sentence.
    package let remedy: String
    /// The code that the guide explains; nil if the reason has none.
    package let code: String?
    /// The time at which the reason began, by the clock of the host; nil if it is not recorded.
    package var since: Timestamp?

    /// The reason, and for how long it is one, such as `failed for 2 days`.
    package func text(at now: Timestamp) -> String {
        since.map { "\(words) for \(RosterRule.span(now.secondsSinceEpoch - $0.secondsSinceEpoch))" } ?? words
    }

    /// Returns the reasons for which a device needs attention, the most important one first.
    static func all(_ row: RosterRow, at now: Timestamp) -> [RosterReason] {
        var list = List()
        list.addState(row.post)
        if RosterRule.isSilent(row, at: now) {
            list.add(
                .silent, "silent", "silent",
                "Check its power and its network, then run `clientctl doctor` on the device.")
        }
        if let error = RosterRule.clockError(row) { list.add(.clock, "clock \(error)", .clock, key: "clock") }
        if row.conflict != nil {
            list.add(
                .conflict, "conflict", "another key signs",
                "If the store of the device is new, pin its key: `clientctl fleet forget NAME --pin-key KEY`.")
        }
        if row.older != nil { list.add(.oldMessages, "sends old messages", .clock, key: "oldMessages") }
        list.addCheck(row.post)
        list.addScreen(row.post)
        for finding in row.post.findings { list.add(finding: finding, of: row.post) }
        // Reasons of one kind stay in the order in which they were added.
        return list.found.sorted { $0.kind < $1.kind }.map { reason in
            var reason = reason
            reason.since = reason.kind == .silent ? row.seen : row.began[reason.key]
            return reason
        }
    }

    /// The reasons that were found so far. Two facts with one cause are one reason.
    private struct List {
        var found: [RosterReason] = []

        func has(_ kinds: Kind...) -> Bool { found.contains { kinds.contains($0.kind) } }

        mutating func add(_ kind: Kind, _ key: String, _ words: String, _ remedy: String, code: String? = nil) {
            if found.contains(where: { $0.key == key }) { return }
            found.append(RosterReason(kind: kind, key: key, words: words, remedy: remedy, code: code))
        }

        mutating func add(_ kind: Kind, _ words: String, _ code: FailureCode, key: String) {
            add(kind, key, words, code.remedy, code: code.rawValue)
        }

        mutating func add(_ kind: Kind, _ words: String, _ finding: FindingCode, key: String) {
            add(kind, key, words, finding.remedy, code: finding.rawValue)
        }

        mutating func addState(_ post: RosterPost) {
            if post.state == .failed { add(.failed, "failed", .healthFailed, key: "failed") }
            if post.state == .blocked, let runs = post.runs { addBlocked(runs) }
            if let version = RosterRule.newestBlocked(post) { addBlocked(version) }
            if post.screen == .failure { add(.nothingShown, "shows nothing", .clients, key: "nothingShown") }
        }

        private mutating func addBlocked(_ version: String) {
            add(.blocked, "blocked \(version)", .versionBlocked, key: "blocked:\(version)")
        }

        /// Adds the failure of the last check.
        mutating func addCheck(_ post: RosterPost) {
            guard let text = post.code else { return }
            let parts = text.split(separator: ":", maxSplits: 1).map(String.init)
            let (name, value) = (parts.first ?? text, parts.count > 1 ? parts[1] : nil)
            let key = "code:\(name)"
            guard let code = FailureCode(rawValue: name) else {
                let unknown = "This host does not have the words of the code: update its clientctl."
                return add(.check, key, parts.joined(separator: " "), unknown, code: name)
            }
            switch (code, value) {
            case (.versionBlocked, let version?): addBlocked(version)
            case (.versionBlocked, nil) where has(.blocked): break
            case (.versionBlocked, nil): add(.blocked, code.words, code, key: key)
            case (.incompatibleShell, _) where post.waiting == .shell: break
            case (.diskFull, _): add(.disk, code.words, code, key: key)
            case (.httpStatus, let status?): add(.check, "the server answers \(status)", code, key: key)
            default: add(.check, code.words, code, key: key)
            }
        }

        mutating func addScreen(_ post: RosterPost) {
            if post.waiting == .shell { add(.shell, "needs a newer shell", .incompatibleShell, key: "shell") }
            switch post.screen {
            case .locked: add(.screen, "locked", .deviceLocked, key: "screen:locked")
            case .maintenance: add(.screen, "maintenance", .deviceLocked, key: "screen:maintenance")
            case .signedOut: add(.screen, "signed out", .loginRequired, key: "screen:signedOut")
            case .failure, .starting, .client, .guests, .updateRequired, .waiting, nil: break
            }
        }

        /// Adds a finding of doctor, unless another reason says the same.
        mutating func add(finding name: String, of post: RosterPost) {
            let key = "finding:\(name)"
            if name == FailureCode.blankScreen.rawValue {
                return add(.nothingShown, FailureCode.blankScreen.words, .blankScreen, key: key)
            }
            guard let finding = FindingCode(rawValue: name) else {
                let unknown = "This host does not have the words of the code: update its clientctl."
                return add(.finding, key, name, unknown, code: name)
            }
            switch finding {
            case .clock where has(.clock), .session where has(.screen), .clients where has(.failed, .nothingShown):
                break
            case .wanted where post.code != nil: break
            // The device shows a client, so another one failed.
            case .clients where post.runs != nil: add(.failed, "a release did not start", .healthFailed, key: key)
            case .clock: add(.clock, finding.words, finding, key: key)
            case .diskSpace, .inodes: add(.disk, finding.words, finding, key: key)
            default: add(.finding, finding.words, finding, key: key)
            }
        }
    }
}
