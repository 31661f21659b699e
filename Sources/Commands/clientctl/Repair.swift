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
            Every file is compared with its client's receipt. One that differs is replaced,
            in one rename, by the same content of another installed client, else of the
            seed, else of the release's archive in the feed. Serving roots are mended too,
            also while `serve` shows them. What stays damaged ends with status 33, and is
            blocked until it is mended, where anything else can be shown.

            Examples:
              clientctl repair --store /var/lib/clientctl --dry-run
              clientctl repair --store /var/lib/clientctl --seed /usr/share/kiosk/www
              clientctl repair --store /var/lib/clientctl \\
                --channel https://updates.example.com/channels/stable.json
            """)

    @OptionGroup var place: StoreOptions

    @Option(
        help: ArgumentHelp(
            "The feed's manifest, as install takes it: what its archives lie beside.", valueName: "url|file"),
        completion: .file())
    var manifest: String?

    @Option(
        help: ArgumentHelp("Instead of --manifest, the channel document that install takes.", valueName: "url|file"),
        completion: .file())
    var channel: String?

    @Option(
        help: ArgumentHelp("Folder of the client that the shell itself brings.", valueName: "dir"),
        completion: .directory)
    var seed: String?

    @Option(
        help: ArgumentHelp("A Meteor seed's compatibility version: android (the default) or ios.", valueName: "name"))
    var platform: String?

    @Flag(help: "Show what is damaged only.")
    var dryRun = false

    @OptionGroup var network: NetworkOptions
    @OptionGroup var limits: LimitOptions
    @OptionGroup var common: CommonOptions

    func needs(_ settings: Settings) throws -> (confinement: Confinement, startsPrograms: Bool) {
        (Confinement(folders: try settings.folders("store", place.store)), false)
    }

    func run() async throws {
        let settings = try common.settings()
        let store = try settings.required("store", place.store)
        let isDryRun = try settings.isOn("dry-run", dryRun)
        let progress = Progress()
        defer { progress.end() }
        let layout = MeteorBundles(platform: try Wiring.platform(platform, settings))
        let repair = StoreRepair(
            store: store, seed: try settings.optional("seed", seed).map { try SeedFolder(at: $0, layout: layout) },
            layout: layout, archives: try archives(settings, store, progress)
        ) { Output.say("clientctl: \($0)") }
        try Wiring.requireStore(store)
        try StoreMark.require(in: try Directory.open(store))
        let report = try await isDryRun ? repair.look() : repair.run()
        progress.end()
        let json = try settings.isOn("json", common.json)
        let members = object(report, isDryRun)
        guard let first = report.damage.first else {
            return Output.give(json: json, afterChange: true, members, lines(report))
        }
        if !json { Output.give(json: false, afterChange: true, [:], lines(report)) }
        let subject = "\(first.client): \(first.path.map { "\($0) " } ?? "")\(first.reason)"
        let advice =
            isDryRun
            ? "Run it without --dry-run."
            : "Name the feed with --manifest or --channel and the seed with --seed, or install a newer release."
        let failure = UpdateFailure(
            .storeDamaged, subject: subject,
            "\(Self.words(report.damage)) in the store \(store) \(report.damage.count == 1 ? "is" : "are") damaged. \(advice)"
        )
        throw FailureWithOutput(failure: failure, members: members)
    }

    private func archives(_ settings: Settings, _ store: String, _ progress: Progress) throws -> FeedArchives? {
        let isFlagged = manifest != nil || channel != nil
        let manifest = isFlagged ? manifest : try settings.optional("manifest", nil)
        let channel = isFlagged ? channel : try settings.optional("channel", nil)
        guard let feed = try Wiring.feed(manifest: manifest, channel: channel) else { return nil }
        return FeedArchives(
            source: feed, limits: try limits.limits(settings),
            fetcher: try Wiring.fetcher(network, for: feed.url, store: store, settings), report: progress.report)
    }

    /// A client without a receipt is damaged as a whole.
    private static func words(_ damage: [RepairReport.Damage]) -> String {
        let files = damage.count { $0.path != nil }
        let clients = damage.count - files
        let parts = [(files, "file"), (clients, "client")].filter { $0.0 > 0 }
        return parts.map { "\($0.0) \($0.1)\($0.0 == 1 ? "" : "s")" }.joined(separator: " and ")
    }

    // MARK: Output

    private func object(_ report: RepairReport, _ isDryRun: Bool) -> JSONObject {
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
                ? "what \(file.client) serves as \(file.path)" : "\(file.path) of \(file.client)"
            return file.origin == .removed
                ? "removed \(place), which was not installed" : "restored \(place) from \(file.origin.words)"
        }
            + report.damage.map { "damaged \($0.client): \($0.path.map { "\($0) " } ?? "")\($0.reason)" }
            + [
                "\(report.files) \(report.files == 1 ? "file" : "files") of \(report.clients.count) "
                    + (report.clients.count == 1 ? "client compared" : "clients compared")
                    + (report.repaired.isEmpty && report.damage.isEmpty ? ": all are intact" : "")
            ]
    }
}

extension RepairReport.Origin {
    /// The word for it in JSON.
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
