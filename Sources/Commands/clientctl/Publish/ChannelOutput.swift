import BundleFormats
import BundlePublish
import BundleValues

enum ChannelOutput {
    static func object(_ report: ChannelReport, _ names: KeyNames = KeyNames()) -> JSONObject {
        var object: JSONObject = [
            "outcome": .string(report.outcome.rawValue), "channel": .string(report.document.channel),
            "sequence": .integer(report.document.sequence),
            "previousSequence": report.previousSequence.map(JSONValue.integer) ?? .null,
            "issuedAt": .string(report.document.issuedAt.description),
            "expires": .string(report.document.expires.description),
            "changes": .array(report.changes.map(JSONValue.string)), "manifest": manifest(report.newest),
            "warnings": .array(report.warnings.map(JSONValue.string)),
        ]
        object["writes"] = report.writes.map(WriteOutput.value)
        object["proposal"] = report.proposal.map { proposal in
            .object([
                "id": .string(proposal.id), "keyIds": .array(proposal.keyIds.map(JSONValue.string)),
                "signers": .array(proposal.keyIds.map { .string(names.name(of: $0)) }),
                "missing": .integer(proposal.missing),
            ])
        }
        return object
    }

    private static func manifest(_ change: NewestChange) -> JSONValue {
        let (isChanged, offered, isRemoved): (Bool, SemanticVersion?, Bool) =
            switch change {
            case .untouched: (false, nil, false)
            case .offers(let version): (true, version, false)
            case .removed: (true, nil, true)
            }
        return .object([
            "changed": .bool(isChanged), "offers": .string(orNull: offered?.description), "removed": .bool(isRemoved),
        ])
    }

    private static func line(_ change: NewestChange, isDryRun: Bool) -> [String] {
        switch change {
        case .untouched: []
        case .offers(let version): ["  manifest.json \(isDryRun ? "would offer" : "offers") \(version) from now on"]
        case .removed(let version):
            [
                "  manifest.json \(isDryRun ? "would be" : "was") removed: it offered \(version), and no other release is for every device. "
                    + "Devices that follow it keep \(version) until a higher version is published."
            ]
        }
    }

    static func warn(_ report: ChannelReport) {
        for warning in report.warnings { Output.warn("channel \(report.document.channel): \(warning)") }
    }

    /// The signers of a proposal, and what another person has to do.
    private static func lines(_ proposal: ChannelReport.ProposalNote, _ report: ChannelReport, _ names: KeyNames)
        -> [String]
    {
        let signed = "  signed by \(proposal.keyIds.map(names.name).joined(separator: " and "))"
        // Only the whole ID names the content.
        let command = "clientctl release approve \(proposal.id) --channel \(report.document.channel)"
        if proposal.missing > 0 {
            return [signed, "  waits for \(counted(proposal.missing, "more channel key")): \(command)"]
        }
        return report.outcome == .dryRun ? [signed, "  would be published by: \(command)"] : [signed]
    }

    static func lines(_ report: ChannelReport, _ names: KeyNames = KeyNames()) -> [String] {
        let document = report.document
        let waits = report.proposal.map { $0.missing > 0 } ?? false
        let what =
            switch report.outcome {
            case .proposed: "proposed, and no device has it yet"
            case .dryRun where waits: "would be proposed (dry run; nothing was written)"
            case .changed: report.previousSequence == nil ? "created" : "changed"
            case .unchanged: "unchanged, nothing was written"
            case .completed: "unchanged; manifest.json was missing or outdated, and was written"
            case .dryRun: "would change (dry run; nothing was written)"
            }
        var lines = ["channel \(document.channel): \(what)"]
        lines += report.changes.map { "  \($0)" }
        lines += line(report.newest, isDryRun: report.outcome == .dryRun)
        let until = document.expires <= .now ? "expired at" : "expires"
        lines.append("  sequence \(document.sequence), \(until) \(document.expires)")
        if let proposal = report.proposal { lines += self.lines(proposal, report, names) }
        return lines + WriteOutput.lines(report.writes)
    }
}

/// The lines and JSON of the files that a dry run would write.
enum WriteOutput {
    static func value(_ writes: [FeedWrite]) -> JSONValue {
        .array(
            writes.map { write in
                var headers: JSONObject = [:]
                for header in write.headers { headers[header.name] = .string(header.value) }
                return .object([
                    "kind": .string(write.kind.rawValue), "name": .string(write.name), "bytes": .integer(write.size),
                    "headers": .object(headers),
                ])
            })
    }

    static func lines(_ writes: [FeedWrite]?) -> [String] {
        (writes ?? []).map { write in
            let headers = write.headers.map { "; \($0.name): \($0.value)" }.joined()
            let verb = write.kind == .probe ? "would test the bucket with" : "would \(write.kind.rawValue)"
            return "  \(verb)  \(write.name), \(counted(write.size, "byte"))\(headers)"
        }
    }
}
