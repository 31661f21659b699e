import ArgumentParser
import BundleCore
import BundleDisk
import BundleValues
import BundleShell

/// `clientctl doctor`.
struct Doctor: AsyncParsableCommand, ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Find out why a device does not update, or does not show its client.",
        discussion: """
            Give it the flags of install or serve. It checks the clock, the disk, the
            store, the trust root, the network, the feed and the port. Each finding says
            what to do, and the page "clientctl doctor" of the guide explains its code.
            The command takes no lock, changes nothing in the store, and ends within a
            minute. The exit status is 62 if a finding is a failure; warnings do not
            change it. To check a feed itself, use `clientctl feed check`.

            Examples:
              clientctl doctor --store /var/lib/clientctl
              sudo -u kiosk clientctl doctor --config /etc/clientctl.json
              clientctl doctor --store /var/lib/clientctl --trust /etc/kiosk/trust.json \\
                --channel https://updates.example.com/channels/stable.json --json
            """)

    @OptionGroup var update: UpdateOptions

    @Option(
        help: ArgumentHelp(
            "Port of `serve` (default: as for `serve`, from the ID of the application, otherwise 12000).",
            valueName: "n"))
    var port: String?

    @OptionGroup var origins: OriginOptions
    @OptionGroup var common: CommonOptions

    /// Needs only the folder in which the file system is tested. A folder that does not exist is not created.
    func needs() -> (confinement: Confinement, startsPrograms: Bool) {
        let staging = FlagValue.folders(update.store).map(DeviceDoctor.staging)
        // A thread without confinement finds the program that listens on the port.
        return (Confinement(folders: staging.filter(File.exists)), true)
    }

    func run() async throws {
        let doctor = try Wiring.doctor(update, port: port, origins: try origins.bound())
        let reading = try await doctor.read()
        let findings = DoctorRule.findings(reading)
        let worst = DoctorRule.worst(findings)
        Output.give(
            json: common.json,
            [
                "outcome": .string(worst.outcome), "store": .string(reading.store.path),
                "feeds": .array(reading.feeds.map { .string($0.url.display) }),
                "findings": .array(findings.map(Self.describe)),
            ], lines: findings.flatMap { Self.lines($0, columns: Ink.columns(of: 1)) } + [Self.summary(findings)])
        if worst == .failure { throw ExitCode(ExitTable.doctorFailed) }
    }

    private static func describe(_ finding: DoctorFinding) -> JSONValue {
        .object([
            "code": .string(finding.code.rawValue), "severity": .string(finding.severity.rawValue),
            "subject": .string(finding.subject), "message": .string(finding.message),
            "advice": .string(orNull: finding.advice), "page": .string(finding.page),
        ])
    }

    /// Returns the lines of a finding, which are wrapped with a hanging indent on a terminal.
    private static func lines(_ finding: DoctorFinding, columns: Int?) -> [String] {
        let word = finding.severity.rawValue
        let indent = String(repeating: " ", count: 9)
        func wrapped(_ text: String) -> [String] {
            guard let columns else { return [text] }
            var rows: [String] = []
            for word in text.split(separator: " ") {
                if let row = rows.last, row.count + 1 + word.count <= columns - indent.count {
                    rows[rows.count - 1] = "\(row) \(word)"
                } else {
                    rows.append(String(word))
                }
            }
            return rows
        }
        let rows = wrapped("\(finding.code.rawValue): \(finding.message)") + (finding.advice.map(wrapped) ?? [])
        return rows.enumerated().map { ($0 == 0 ? word + indent.dropFirst(word.count) : indent) + $1 }
    }

    private static func summary(_ findings: [DoctorFinding]) -> String {
        func count(_ severity: DoctorFinding.Severity, word: String) -> String {
            counted(findings.count { $0.severity == severity }, word)
        }
        return "\(count(.failure, word: "failure")), \(count(.warning, word: "warning"))"
    }
}

extension DoctorFinding.Severity {
    /// The outcome of the command in JSON.
    fileprivate var outcome: String {
        switch self {
        case .ok: "good"
        case .warning: "warning"
        case .failure: "failed"
        }
    }
}

extension DoctorFinding {
    /// The section of the guide that explains the finding.
    fileprivate var page: String { "reference/doctor.md#\(code.rawValue.lowercased())" }
}
