import ArchiveSource
import ArgumentParser
import BundleCore
import BundleDisk
import BundleValues
import MeteorSource

/// `clientctl repair`.
struct Repair: AsyncParsableCommand, ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "repair",
        abstract: "Restore installed files that are damaged or missing.",
        discussion: """
            Compares every file with the receipt of its client. A file that differs is
            replaced in one rename. The new content comes from another installed client,
            otherwise from the seed, otherwise from the archive in the feed. Serving roots
            are repaired too, even while `serve` uses them. If a client stays damaged, the
            exit status is 33. The client is then blocked until it is repaired, unless
            there is no other client to show.

            Examples:
              clientctl repair --store /var/lib/clientctl --dry-run
              clientctl repair --store /var/lib/clientctl --seed /usr/share/kiosk/www
              clientctl repair --store /var/lib/clientctl \\
                --channel https://updates.example.com/channels/stable.json
            """)

    @OptionGroup var place: StoreOptions

    @Option(
        help: ArgumentHelp(
            "Manifest of the feed that has the archives, as for install.", valueName: "url|file"),
        completion: .file())
    var manifest: String?

    @Option(
        help: ArgumentHelp("Instead of --manifest, the channel file, as for install.", valueName: "url|file"),
        completion: .file())
    var channel: String?

    @Option(help: .seed, completion: .directory) var seed: String?

    @Option(help: .seedPlatform, completion: .platform) var platform: String?

    @Flag(help: "Show what is damaged, and repair nothing.")
    var dryRun = false

    @OptionGroup(title: "Network") var network: NetworkOptions
    @OptionGroup(title: "Limits") var limits: LimitOptions
    @OptionGroup var common: CommonOptions

    func needs() -> (confinement: Confinement, startsPrograms: Bool) {
        (Confinement(folders: FlagValue.folders(place.store)), false)
    }

    func run() async throws {
        let store = try place.required()
        let progress = Progress()
        defer { progress.end() }
        let layout = MeteorBundles(platform: try Wiring.platform(platform))
        let repair = StoreRepair(
            store: store, seed: try seed.map { try SeedFolder(at: $0, layout: layout) },
            layout: layout, archives: try archives(store, progress: progress), environment: .command)
        try Wiring.requireStore(store)
        try StoreMark.require(in: try Directory.open(store))
        let report = try await dryRun ? repair.look() : repair.run()
        progress.end()
        let members = object(report, isDryRun: dryRun)
        guard let first = report.damage.first else {
            return Output.give(json: common.json, afterChange: true, members, lines: lines(report))
        }
        if !common.json { Output.give(json: false, afterChange: true, [:], lines: lines(report)) }
        let subject = "\(first.client): \(first.path.map { "\($0) " } ?? "")\(first.reason)"
        let advice =
            dryRun
            ? "Run repair without --dry-run."
            : "Name the feed with --manifest or --channel and the seed with --seed, or install a newer release."
        let failure = UpdateFailure(
            .storeDamaged, subject: subject,
            "\(Self.words(report.damage)) in the store \(store) \(report.damage.count == 1 ? "is" : "are") damaged. \(advice)"
        )
        throw FailureWithOutput(failure: failure, members: members)
    }

    private func archives(_ store: String, progress: Progress) throws -> FeedArchives? {
        guard let feed = try Wiring.feed(manifest: manifest, channel: channel) else { return nil }
        return FeedArchives(
            source: feed, limits: try limits.limits(),
            fetcher: try Wiring.fetcher(network, for: feed.url, store: store), report: progress.observer)
    }

    /// Returns the numbers of damaged files and of clients without a receipt.
    private static func words(_ damage: [RepairReport.Damage]) -> String {
        let files = damage.count { $0.path != nil }
        let clients = damage.count - files
        let parts = [(files, "file"), (clients, "client")].filter { $0.0 > 0 }
        return parts.map { counted($0.0, $0.1) }.joined(separator: " and ")
    }

    // MARK: Output

    private func object(_ report: RepairReport, isDryRun: Bool) -> JSONObject {
        [
            "outcome": .string(
                isDryRun
                    ? "dryRun" : !report.damage.isEmpty ? "damaged" : report.repaired.isEmpty ? "intact" : "repaired"
            ),
            "clients": .names(report.clients), "files": .integer(report.files),
            "repaired": .array(
                report.repaired.map {
                    .object([
                        "client": .string($0.client.description), "path": .string($0.path),
                        "from": .string($0.origin.word), "served": .bool($0.isServed),
                    ])
                }),
            "damaged": .array(
                report.damage.map {
                    .object([
                        "client": .string($0.client.description), "path": .string(orNull: $0.path),
                        "reason": .string($0.reason),
                    ])
                }),
            "bytesDownloaded": .integer(report.bytesDownloaded),
        ]
    }

    private func lines(_ report: RepairReport) -> [String] {
        report.repaired.map { file in
            let place =
                file.isServed
                ? "\(file.path) in the serving root of \(file.client)" : "\(file.path) of \(file.client)"
            return file.origin == .removed
                ? "removed \(place), which was not installed" : "restored \(place) from \(file.origin.words)"
        }
            + report.damage.map { "damaged \($0.client): \($0.path.map { "\($0) " } ?? "")\($0.reason)" }
            + [
                "compared \(counted(report.files, "file")) of \(counted(report.clients.count, "client"))"
                    + (report.repaired.isEmpty && report.damage.isEmpty ? ": all are intact" : "")
            ]
    }
}

extension RepairReport.RepairOrigin {
    /// The origin in JSON.
    fileprivate var word: String {
        switch self {
        case .client(let name): name.description
        case .seed: "seed"
        case .archive: "archive"
        case .removed: "removed"
        }
    }

    fileprivate var words: String {
        switch self {
        case .client(let name): name.description
        case .seed: "the seed"
        case .archive: "its archive"
        case .removed: "nothing"
        }
    }
}
