import ArgumentParser
import BundleCore
import BundleDisk
import BundleValues
import ClientShell

/// `clientctl doctor`.
struct Doctor: AsyncParsableCommand, ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Find out why a device does not update itself, or does not show its client.",
        discussion: """
            Give it the settings of install or serve. It looks at the clock, the disk, the
            store, the trust root, the feed and the way there, and the port. Each finding
            says what to do; Guide/reference/doctor.md says more. It takes no lock, changes
            nothing in the store, and ends within a minute. A finding that keeps the device
            from its work ends with status 62; warnings do not. A feed itself is checked by
            `clientctl feed check`.

            Examples:
              clientctl doctor --store /var/lib/clientctl
              sudo -u kiosk clientctl doctor --config /etc/clientctl.json
              clientctl doctor --store /var/lib/clientctl --trust /etc/kiosk/trust.json \\
                --channel https://updates.example.com/channels/stable.json --json
            """)

    @OptionGroup var update: UpdateOptions

    @Option(help: ArgumentHelp("Port of serve; from --app-id, or 12000, by default.", valueName: "n"))
    var port: String?

    @OptionGroup var common: CommonOptions

    /// Only the folder in which the file system is tried; what is not there yet is not made.
    func needs(_ settings: Settings) throws -> (confinement: Confinement, startsPrograms: Bool) {
        let staging = try settings.folders("store", update.store).map(DeviceDoctor.staging)
        // A thread without confinement finds the program that listens on the port.
        return (Confinement(folders: staging.filter(File.exists)), true)
    }

    func run() async throws {
        let settings = try common.settings()
        let doctor = try Wiring.doctor(update, port: port, settings)
        let reading = try await doctor.read()
        let findings = DoctorRule.findings(reading)
        let worst = DoctorRule.worst(findings)
        Output.give(
            json: try settings.isOn("json", common.json),
            [
                "outcome": .string(worst.outcome), "store": .string(reading.store.path),
                "feeds": .array(reading.feeds.map { .string($0.url.display) }),
                "findings": .array(findings.map(Self.describe)),
            ], findings.flatMap(Self.lines) + Self.summary(findings, reading))
        if worst == .failure { throw ExitCode(ExitTable.unwell) }
    }

    private static func describe(_ finding: DoctorFinding) -> JSONValue {
        .object([
            "code": .string(finding.code.rawValue), "severity": .string(finding.severity.rawValue),
            "subject": .string(finding.subject), "message": .string(finding.message),
            "advice": .string(orNull: finding.advice), "page": .string(finding.page),
        ])
    }

    private static func lines(_ finding: DoctorFinding) -> [String] {
        let word = finding.severity.rawValue
        let indent = String(repeating: " ", count: 9)
        return ["\(word)\(indent.dropFirst(word.count))\(finding.code.rawValue): \(finding.message)"]
            + (finding.advice.map { ["\(indent)\($0)"] } ?? [])
    }

    private static func summary(_ findings: [DoctorFinding], _ reading: DoctorReading) -> [String] {
        func count(_ severity: DoctorFinding.Severity, _ word: String) -> String {
            let number = findings.count { $0.severity == severity }
            return "\(number) \(word)\(number == 1 ? "" : "s")"
        }
        let feeds =
            reading.feeds.isEmpty
            ? ["no feed is named, so the network was not looked at: give --channel, --manifest or --meteor"] : []
        return feeds + ["\(count(.failure, "failure")), \(count(.warning, "warning"))"]
    }
}

extension DoctorFinding.Severity {
    /// How the device is, in one word, as answers have it.
    fileprivate var outcome: String {
        switch self {
        case .ok: "good"
        case .warning: "warned"
        case .failure: "unwell"
        }
    }
}

extension DoctorFinding {
    /// The part of the guide that is about it.
    fileprivate var page: String { "reference/doctor.md#\(code.rawValue.lowercased())" }
}
