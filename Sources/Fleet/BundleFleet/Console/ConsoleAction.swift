import BundleFormats

/// A button of the console. Each stands for one command, whose words it makes of the fields of a form.
package enum ConsoleAction: String, Sendable, CaseIterable {
    case rollout, ramp, target, untarget, pause, resume, urgent, calm, promote, recall, undo, retry, withdraw
    case renew, restore, approve
    case forget

    /// The words on the button.
    var label: String {
        switch self {
        case .rollout: "Set percentage"
        case .ramp: "Start ramp"
        case .target: "Aim at groups"
        case .untarget: "Aim at no group"
        case .pause: "Pause"
        case .resume: "Resume"
        case .urgent: "Mark urgent"
        case .calm: "Mark not urgent"
        case .promote: "Promote"
        case .recall: "Recall"
        case .undo: "Undo the recall"
        case .retry: "Let devices retry"
        case .withdraw: "Withdraw"
        case .renew: "Renew"
        case .restore: "Restore"
        case .approve: "Approve"
        case .forget: "Forget"
        }
    }

    /// What the button is for, in a sentence beside it.
    var purpose: String {
        switch self {
        case .rollout: "Which share of the devices may install it."
        case .ramp: "Several percentages, one after the other."
        case .target: "Groups, or device: and an ID, that may install it first, or alone."
        case .untarget: "Only the percentage applies."
        case .pause: "Devices that have it keep it; no other device installs it."
        case .resume: "Further devices install it again. A guard's hold ends."
        case .urgent: "Devices show it as soon as they have it."
        case .calm: "Devices show it when its page asks for it, or in their activation window."
        case .promote: "Copy it to another channel."
        case .recall: "Devices that run it move to the best of the other releases."
        case .undo: "Devices may run it again."
        case .retry: "Devices that blocked it after failed starts try it once more."
        case .withdraw: "Remove it from the channel. Devices that run it keep it."
        case .renew: "Sign the channel again, with a later expiry."
        case .restore: "Offer the releases of this channel file again. Later recalls stay."
        case .approve: "Add your signature. Devices get the change when enough people have signed."
        case .forget: "Remove it from the roster, with its pinned key. Its next message adds it again."
        }
    }

    /// A field of its form.
    struct Input: Sendable {
        let name: String
        let label: String
        var example = ""
        var isSwitch = false
    }

    var inputs: [Input] {
        switch self {
        case .rollout: [Input(name: "percent", label: "Percentage", example: "10%")]
        case .ramp:
            [
                Input(name: "ramp", label: "Percentages", example: "1%,10%,50%,100%"),
                Input(name: "every", label: "Time between two", example: "1d"),
            ]
        case .target:
            [
                Input(name: "groups", label: "Groups", example: "qa,eu"),
                Input(name: "only", label: "No other device", isSwitch: true),
            ]
        case .promote:
            [
                Input(name: "to", label: "Channel", example: "stable"),
                Input(name: "rollout", label: "Percentage there", example: "10%"),
            ]
        case .recall: [Input(name: "reason", label: "Reason, which devices show", example: "white screen")]
        default: []
        }
    }

    /// Returns the words of the command, without the flags of the feed and the key. A value that is missing or invalid is refused by the
    /// command itself.
    package func words(_ fields: [String: String]) -> [String] {
        /// An option as one word, so that no value is another option.
        func option(_ name: String, _ field: String? = nil) -> [String] {
            guard let value = fields[field ?? name], !value.isEmpty else { return [] }
            return ["--\(name)=\(value)"]
        }
        func operand(_ field: String) -> [String] { fields[field].map { $0.isEmpty ? [] : ["--", $0] } ?? [] }
        let version = option("version")
        return switch self {
        case .rollout: ["release", "rollout"] + version + operand("percent")
        case .ramp: ["release", "rollout"] + version + option("ramp") + option("every")
        case .target:
            ["release", "target"] + version + (fields["only"] == nil ? [] : ["--only"]) + operand("groups")
        case .untarget: ["release", "target", "--undo"] + version
        case .pause, .resume, .retry, .withdraw: ["release", rawValue] + version
        case .urgent: ["release", "set", "--urgent"] + version
        case .calm: ["release", "set", "--no-urgent"] + version
        case .promote: ["release", "promote"] + version + option("to") + option("rollout")
        case .recall: ["release", "recall"] + version + option("reason")
        case .undo: ["release", "recall", "--undo"] + version
        case .renew: ["channel", "renew"]
        case .restore: ["channel", "restore"] + option("copy")
        case .approve: ["release", "approve"] + operand("id")
        case .forget: ["fleet", "forget"] + operand("device")
        }
    }

    /// The buttons that make sense for a release in this state.
    static func buttons(for row: ReleasePage.ReleaseRow) -> [ConsoleAction] {
        if row.isRecalled { return [.undo, .withdraw] }
        let release = row.release
        return [row.release.isPaused ? .resume : .pause, .rollout, .ramp, .target]
            + (release.groups.isEmpty ? [] : [.untarget]) + [release.isUrgent ? .calm : .urgent]
            + [.promote, .retry, .recall, .withdraw]
    }
}

/// A line of the difference between two documents.
package struct DifferenceLine: Sendable, Equatable {
    package enum Kind: Sendable { case same, removed, added }

    package let kind: Kind
    package let text: String

    /// The number of equal lines around a change.
    private static let context = 2
    /// More lines than a channel file has. Beyond it, the texts are compared as a whole.
    private static let most = 4000

    /// The words for the difference of longer texts.
    package static let tooLong =
        "The channel file has more than \(most) lines, so the difference is not shown here. Compare the two files of the feed before you sign."

    /// Returns the changed lines between two texts with some lines around them; nil for each gap between them, and only nil for long texts.
    package static func lines(from old: String, to new: String) -> [DifferenceLine?] {
        let (old, new) = (old.split(separator: "\n").map(String.init), new.split(separator: "\n").map(String.init))
        guard old.count <= most, new.count <= most else { return [nil] }
        let changes = new.difference(from: old)
        var (removed, inserted) = (Set<Int>(), Set<Int>())
        for change in changes {
            switch change {
            case .remove(let offset, _, _): removed.insert(offset)
            case .insert(let offset, _, _): inserted.insert(offset)
            }
        }
        var all: [DifferenceLine] = []
        var (left, right) = (0, 0)
        while left < old.count || right < new.count {
            if removed.contains(left) {
                all.append(DifferenceLine(kind: .removed, text: old[left]))
                left += 1
            } else if inserted.contains(right) {
                all.append(DifferenceLine(kind: .added, text: new[right]))
                right += 1
            } else {
                all.append(DifferenceLine(kind: .same, text: new[right]))
                (left, right) = (left + 1, right + 1)
            }
        }
        let near = all.indices.filter { index in
            all[max(0, index - context)...min(all.count - 1, index + context)].contains { $0.kind != .same }
        }
        var (lines, last) = ([DifferenceLine?](), -1)
        for index in near {
            if index > last + 1, last >= 0 { lines.append(nil) }
            lines.append(all[index])
            last = index
        }
        return lines
    }
}

/// What a button will do, for the person who pressed it.
package struct ConsoleQuestion: Sendable {
    package let action: ConsoleAction
    /// The fields of the form, which the answer repeats.
    package let fields: [String: String]
    /// The command line that does the same.
    package let command: String
    /// The changes, in words.
    package let changes: [String]
    package let warnings: [String]
    package let difference: [DifferenceLine?]
    /// Who signs it, and who else must.
    package let signing: [String]
    /// How many devices that is about; nil if the roster does not say.
    package let reach: String?
    /// The change of another person that came first, in words; empty without one.
    package let news: [String]

    package init(
        _ action: ConsoleAction, _ fields: [String: String], command: String, changes: [String],
        warnings: [String] = [], difference: [DifferenceLine?] = [], signing: [String] = [], reach: String? = nil,
        news: [String] = []
    ) {
        (self.action, self.fields, self.command, self.changes) = (action, fields, command, changes)
        (self.warnings, self.difference, self.signing) = (warnings, difference, signing)
        (self.reach, self.news) = (reach, news)
    }
}
