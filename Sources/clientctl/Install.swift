import ArchiveChannel
import ArgumentParser
import BundleCore

/// `clientctl install`.
struct Install: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Brings the newest release into the store, if it is for this device.",
        discussion: """
            Fetches the manifest, verifies its signature, decides, downloads and
            verifies the archive, and unpacks it into STORE/clients/vX.Y.Z. After a
            failure the store is what it was; the next run needs no cleaning up.

            Examples:
              clientctl install --trust release.pub.pem \\
                --manifest https://updates.example.com/manifest.json \\
                --store /var/lib/kiosk --shell-version 1.2.0
              clientctl install --trust /etc/kiosk/keys \\
                --manifest /media/usb/feed/manifest.json \\
                --store /var/lib/kiosk --shell-version 1.2.0 --json
            """)

    @OptionGroup var update: UpdateOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.settings()
        let progress = Progress()
        try Wiring.requireSeed(update, settings)
        let updater = try Wiring.updater(update, settings, report: progress.report)
        do {
            let outcome = try await updater.update()
            progress.end()
            Answer.give(
                json: try settings.isOn("json", common.json), afterChange: true, object(outcome, progress.timings),
                lines(outcome))
        } catch let failure as UpdateFailure where failure.code == .incompatibleShell {
            progress.end()
            throw AnsweredFailure(
                failure: failure,
                members: ["outcome": .string("incompatible"), "version": .string(failure.subject)])
        } catch {
            progress.end()
            throw error
        }
    }

    private func object(_ outcome: UpdateOutcome<VerifiedManifest>, _ timings: JSONObject) -> JSONObject {
        switch outcome {
        case .installed(let offer, let report):
            [
                "outcome": .string("installed"),
                "version": .string(offer.version.description),
                "path": .string(report.bundle.path),
                "previous": .string(orNull: report.previous?.description),
                "bytesDownloaded": .integer(report.bytesDownloaded),
                "retained": .names(report.retention.retained),
                "removed": .names(report.retention.removed),
                "current": .string(report.current.description),
                "pending": .string(orNull: report.pending?.description),
                "timings": .object(timings),
            ]
        case .upToDate(_, let inventory, let newest):
            [
                "outcome": .string("upToDate"),
                "version": .string(newest.description),
                "path": .string(orNull: inventory.bundle(newest)?.path),
                "previous": .string(orNull: inventory.ledger.previous?.description),
                "bytesDownloaded": .integer(0),
                "retained": .names(inventory.bundles.map(\.version)),
                "removed": .array([]),
                "current": .string(inventory.ledger.current.description),
                "pending": .string(orNull: inventory.ledger.pending?.description),
                "timings": .object(timings),
            ]
        }
    }

    private func lines(_ outcome: UpdateOutcome<VerifiedManifest>) -> [String] {
        switch outcome {
        case .installed(let offer, let report):
            [
                "installed \(offer.version) in \(report.bundle.path) "
                    + "(\(ByteCount(bytes: report.bytesDownloaded)) downloaded)",
                "current \(report.current)" + (report.pending.map { ", next \($0)" } ?? "")
                    + (report.previous.map { ", previous \($0)" } ?? ""),
            ] + report.retention.removed.map { "removed \($0.folderName)" }
        case .upToDate(let offer, _, let newest):
            [
                offer.version == newest
                    ? "up to date: \(newest) is installed"
                    : "up to date: \(newest) is installed, the feed offers \(offer.version)"
            ]
        }
    }
}

extension JSONValue {
    /// Clients by the names that `list` gives them.
    static func names(_ versions: [SemanticVersion]) -> JSONValue { .array(versions.map { .string($0.folderName) }) }
}
