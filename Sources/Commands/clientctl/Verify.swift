import ArchiveSource
import ArgumentParser
import BundleCore
import BundleValues
import BundleDisk
import BundlePublish
import BundleSigning

/// `clientctl verify`.
struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Verify a release (its manifest, archive and, with --rebuild, its folder) or a store (--store).",
        discussion: """
            Trust roots are followed as devices do. With --store, every installed file is
            compared with its receipt; a difference ends with status 33. With --trust,
            too, it is compared with what a release key has signed: another key ends with
            status 20, another file with 23.

            Examples:
              clientctl verify https://updates.example.com/manifest.json \\
                --trust release.pub.pem
              clientctl verify https://updates.example.com/channels/stable.json \\
                --trust trust.json
              clientctl verify feed/releases/v1.5.0/manifest.json \\
                --trust release.pub.pem --rebuild dist
              clientctl verify --store /var/lib/clientctl
              clientctl verify --store /var/lib/clientctl --trust trust.json
            """)

    @Argument(
        help: "The manifest: a URL (https, http, file, s3) or a path; of a feed, its manifest.json.",
        completion: .file())
    var source: String?

    @OptionGroup var place: StoreOptions

    @Option(
        help: ArgumentHelp("Check the signatures with this key, folder of keys or trust root.", valueName: "path"),
        completion: .file())
    var trust: String?

    @Option(help: ArgumentHelp("A folder to compare with what was released.", valueName: "dir"), completion: .directory)
    var rebuild: String?

    @OptionGroup var excluding: ExcludeOptions
    @OptionGroup var reading: BucketReading
    @OptionGroup var network: NetworkOptions
    @OptionGroup var limits: LimitOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.settings()
        guard let source else {
            if rebuild != nil {
                throw ValidationError(
                    "--rebuild compares a folder with a release: name its manifest in place of --store.")
            }
            try verifyStore(try settings.required("store", place.store), settings)
            return
        }
        let rebuild = try settings.optional("rebuild", rebuild)
        let excluded = try excluding.patterns(settings)
        let drops = try excluding.drops(settings)
        if place.store != nil {
            throw ValidationError("Name a manifest or --store, not both: they are two checks.")
        }
        let temporary = try TemporaryDirectory()
        let limits = try limits.limits(settings)
        let anchor = try TrustAnchor.read(at: try settings.required("trust", trust))
        let (url, device) = try await document(source, anchor, into: temporary.directory, limits, settings)
        let fetcher = try Wiring.fetcher(network, for: url, settings)
        if url.description.contains("/channels/"), rebuild == nil {
            let file = try await SpoolFile.fetch(
                url, with: fetcher, maximumBytes: ChannelFormat.maximumBytes, into: temporary.directory)
            let bytes = try file.readAll(maximumBytes: ChannelFormat.maximumBytes)
            return url.path.hasSuffix(".hold.json")
                ? try verifyHold(bytes, of: url, device, settings)
                : try verifyChannel(bytes, of: url, device, settings)
        }
        try device.requireFresh()
        let report = try await ReleaseVerifier(
            manifestURL: url, trusted: device.anchor.keys(for: .release, at: .now), limits: limits, fetcher: fetcher,
            scratch: temporary.directory
        ).verify()
        try device.requireApp(of: report.manifest)
        if let rebuild {
            let inspection = try FolderInspection(Directory.open(rebuild), excluding: excluded, dropping: drops)
            do {
                try ReleaseVerifier.require(inspection.tree, rebuilds: report)
            } catch let difference as RebuildDifference {
                let files = difference.files.map { file in
                    JSONValue.object([
                        "path": .string(file.path.string), "difference": .string(file.kind.rawValue),
                    ])
                }
                throw FailureWithOutput(failure: difference.failure, members: ["differences": .array(files)])
            }
        }
        let manifest = report.manifest.manifest
        Output.give(
            json: try settings.isOn("json", common.json),
            [
                "outcome": .string("verified"), "version": .string(manifest.version.description),
                "keyId": .string(orNull: report.manifest.signers.first?.id), "sha256": .string(manifest.sha256.hex),
                "contentSha256": .string(report.contentSha256.hex), "rebuilt": .bool(rebuild != nil),
                "deltas": .array(report.deltas.map { .object(DeltaListFormat.json($0)) }),
            ],
            [
                "verified \(manifest.version): signed by "
                    + report.manifest.signers.map { "\($0.algorithm.rawValue) key \($0.id)" }.joined(separator: ", "),
                "  archive  sha256 \(manifest.sha256.hex)", "  content  sha256 \(report.contentSha256.hex)",
            ] + report.deltas.map { "  delta    from \($0.baseName), sha256 \($0.sha256.hex)" }
                + (rebuild.map { ["  \($0) is what was released"] } ?? []))
    }

    /// Returns where the document at `source` is, brought here from a bucket, and a device with `anchor` that has followed the trust roots
    /// of its feed.
    private func document(
        _ source: String, _ anchor: TrustAnchor, into folder: Directory, _ limits: ArchiveLimits, _ settings: Settings
    ) async throws -> (url: FetchURL, device: NewDevice) {
        if source.hasPrefix("s3://") {
            let (place, path) = try Wiring.bucketDocument(source, reading, settings)
            let target = try folder.directory(creating: "feed")
            let device = try NewDevice(following: anchor, in: place, clock: .now)
            try FeedCopy.copyRelease(path, from: place, into: target, limits)
            return (try Wiring.url("\(target.path)/\(path)"), device)
        }
        let url = try Wiring.url(Wiring.document(source))
        var device = try NewDevice(trusting: anchor, clock: .now)
        try await device.follow(
            inFeed: try FeedDocument.feed(of: url), with: try Wiring.fetcher(network, for: url, settings))
        return (url, device)
    }

    private func verifyHold(_ bytes: [UInt8], of url: FetchURL, _ device: NewDevice, _ settings: Settings) throws {
        guard device.hasGuard else {
            throw UpdateFailure(
                .keyUnknown, subject: "hold",
                "--trust names no guard, so no device heeds this hold: give the trust root that does.")
        }
        let hold = try device.verify(hold: bytes, channel: try FeedDocument.channel(of: url))
        Output.give(
            json: try settings.isOn("json", common.json),
            [
                "outcome": .string("verified"), "keyIds": .array(hold.signers.map { .string($0.id) }),
                "hold": .object(HoldView.object(hold.document)),
            ],
            [
                "verified: signed by "
                    + hold.signers.map { "\($0.algorithm.rawValue) key \($0.id)" }.joined(separator: ", ")
            ] + HoldView.lines(hold.document))
    }

    /// Verifies what a device that knows nothing yet would take. `check` reports which release of it a device takes.
    private func verifyChannel(_ bytes: [UInt8], of url: FetchURL, _ device: NewDevice, _ settings: Settings) throws {
        let channel = try FeedDocument.channel(of: url)
        let now = Timestamp.now
        let verified = try device.verify(try ChannelFormat.envelope(parsing: bytes), channel: channel)
        let document = verified.document
        if document.expires <= now {
            throw UpdateFailure(
                .expired, subject: "channel \(document.channel)",
                "The document of channel \(document.channel) expired at \(document.expires): sign it again with `clientctl release resign`."
            )
        }
        for release in device.refused(of: document) {
            if release.isMissed { throw release.failure }
            Output.say(
                "clientctl: devices refuse version \(release.version). Remove it: "
                    + "clientctl release remove --version \(release.version) --channel \(channel)")
        }
        Output.give(
            json: try settings.isOn("json", common.json),
            [
                "outcome": .string("verified"), "keyIds": .array(verified.signers.map { .string($0.id) }),
                "channel": .object(ChannelView.object(document, now: now)),
            ],
            [
                "verified: signed by "
                    + verified.signers.map { "\($0.algorithm.rawValue) key \($0.id)" }.joined(separator: ", ")
            ]
                + ChannelView.lines(document, now: now))
    }

    private func verifyStore(_ store: String, _ settings: Settings) throws {
        // A check of nothing is no check.
        try Wiring.requireStore(store)
        try StoreMark.require(in: try Directory.open(store))
        let inventory = try Inventory.read(at: store)
        let signed = try verifySigned(inventory, store, settings)
        for bundle in inventory.bundles {
            guard let difference = try InstalledTree.difference(of: bundle, inStoreAt: store) else { continue }
            throw UpdateFailure(
                .storeDamaged, subject: "\(bundle.name): \(difference)",
                "The store disagrees with its receipts: in \(bundle.name), \(difference). "
                    + "Run `clientctl repair --store \(store)`.")
        }
        Output.give(
            json: try settings.isOn("json", common.json),
            [
                "outcome": .string("verified"), "versions": .names(inventory.bundles.map(\.name)),
                "signed": .names(signed),
            ],
            inventory.bundles.isEmpty
                ? ["no clients to verify"]
                : inventory.bundles.map { bundle in
                    let what = signed.contains(bundle.name) ? "what a trusted key signed" : "what was installed"
                    return "verified \(bundle.name): every file is \(what)"
                })
    }

    /// Verifies the clients that release keys signed, by `--trust` or by the newest root that the store has followed from there; returns
    /// their names.
    private func verifySigned(_ inventory: Inventory, _ store: String, _ settings: Settings) throws -> [ClientName] {
        guard let path = try settings.optional("trust", trust) else { return [] }
        let device = try NewDevice(
            trusting: try TrustAnchor.read(at: path), knowing: inventory.ledger.feed, clock: .now)
        let clients = inventory.bundles.filter { $0.version.source == .archive }
        if clients.isEmpty, trust != nil {
            throw ValidationError(
                "--trust verifies clients that a release key signed, and \(store) has none: leave the flag out.")
        }
        for client in clients {
            _ = try SignedClient.verify(client, inStoreAt: store, trusted: device.releaseKeysOfAnyTime)
        }
        return clients.map(\.name)
    }
}
