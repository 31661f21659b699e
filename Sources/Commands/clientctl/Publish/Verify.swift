import ArchiveSource
import ArgumentParser
import BundleCore
import BundleValues
import BundleDisk
import BundlePublish
import BundleSigning

struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Verify a release, a channel, or the installed clients of a store.",
        discussion: """
            For a release, the command verifies the manifest and the archive. It follows
            the trust roots of the feed as devices do. With --rebuild, it also compares a
            folder with the release.

            With --store, it compares every installed file with its receipt and exits with
            33 if one differs. With --store and --trust, it also compares installed files
            with the signed release. It exits with 20 if the signing key is not trusted,
            and with 23 if a file differs.

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
        help:
            "The manifest or channel file: a URL (https, http, file, s3) or a path. The path of a feed means its manifest.json.",
        completion: .file())
    var source: String?

    @Option(
        help: ArgumentHelp(
            "(required without a manifest) Store: the folder of the installed clients.", valueName: "dir"),
        completion: .directory)
    var store: String?

    @Option(
        help: ArgumentHelp(
            "(required without --store) Key, folder of keys or trust root to check signatures with.",
            valueName: "path"),
        completion: .file())
    var trust: String?

    @Option(help: ArgumentHelp("Folder to compare with the release.", valueName: "dir"), completion: .directory)
    var rebuild: String?

    @OptionGroup(title: "Content") var excluding: ExcludeOptions
    @OptionGroup(title: "Bucket") var reading: BucketReading
    @OptionGroup(title: "Network") var network: NetworkOptions
    @OptionGroup(title: "Limits") var limits: LimitOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        guard let source else {
            if CommandLineFlags.contain("rebuild") {
                throw ValidationError(
                    "--rebuild compares a folder with a release. Give the manifest of the release instead of --store.")
            }
            try verifyStore(try FlagValue.required(store, of: "store"))
            return
        }
        let excluded = try excluding.patterns()
        let drops = try excluding.drops()
        if CommandLineFlags.contain("store") {
            throw ValidationError("Give either a manifest or --store.")
        }
        let temporary = try TemporaryDirectory()
        let limits = try limits.limits()
        let anchor = try TrustAnchor.read(at: try FlagValue.required(trust, of: "trust"))
        let (url, device) = try await document(source, anchor: anchor, into: temporary.directory, limits: limits)
        let fetcher = try Wiring.fetcher(network, for: url)
        if url.description.contains("/channels/"), rebuild == nil {
            let file = try await SpoolFile.fetch(
                url, with: fetcher, maximumBytes: ChannelFormat.maximumBytes, into: temporary.directory)
            let bytes = try file.readAll(maximumBytes: ChannelFormat.maximumBytes)
            return url.path.hasSuffix(".hold.json")
                ? try verifyHold(bytes, of: url, device: device) : try verifyChannel(bytes, of: url, device: device)
        }
        try device.requireFresh()
        let report = try await ReleaseVerifier(
            manifestURL: url, trusted: { device.anchor.keys(for: $0.role, at: .now) }, limits: limits, fetcher: fetcher,
            scratch: temporary.directory
        ).verify()
        try device.requireApp(of: report.manifest)
        if let rebuild {
            let folder = try FolderInspection(
                Directory.open(rebuild), excluding: excluded, dropping: drops,
                isProgram: report.manifest.manifest.kind == .program)
            try Self.require(folder, rebuilds: report)
        }
        give(report)
    }

    /// Throws the differences between a folder and the content of a release.
    private static func require(_ folder: FolderInspection, rebuilds report: ReleaseVerifier.VerifierReport) throws {
        do {
            try ReleaseVerifier.require(folder.tree, rebuilds: report)
        } catch let difference as RebuildDifference {
            let files = difference.files.map { file in
                JSONValue.object(["path": .string(file.path.string), "difference": .string(file.kind.rawValue)])
            }
            throw FailureWithOutput(failure: difference.failure, members: ["differences": .array(files)])
        }
    }

    private func give(_ report: ReleaseVerifier.VerifierReport) {
        let manifest = report.manifest.manifest
        Output.give(
            json: common.json,
            [
                "outcome": .string("verified"), "version": .string(manifest.version.description),
                "keyId": .string(orNull: report.manifest.signers.first?.id), "sha256": .string(manifest.sha256.hex),
                "contentSha256": .string(report.contentSha256.hex), "rebuilt": .bool(rebuild != nil),
                "origins": report.origins.json,
                "deltas": .array(report.deltas.map { .object(DeltaListFormat.json($0)) }),
            ],
            lines: [
                "verified \(manifest.version): signed by "
                    + report.manifest.signers.map { "\($0.algorithm.rawValue) key \($0.id)" }.joined(separator: ", "),
                "  archive  sha256 \(manifest.sha256.hex)", "  content  sha256 \(report.contentSha256.hex)",
            ] + report.origins.lines.map { "  declares \($0)" }
                + report.deltas.map { "  delta    from \($0.baseName), sha256 \($0.sha256.hex)" }
                + (rebuild.map { ["  \($0) matches the release"] } ?? []))
    }

    /// Returns the URL of the file at `source`, and a device with `anchor` that has followed the trust roots of the feed. Downloads the
    /// release into `folder` first if `source` is in a bucket.
    private func document(
        _ source: String, anchor: TrustAnchor, into folder: Directory, limits: ArchiveLimits
    ) async throws -> (url: FetchURL, device: NewDevice) {
        let url: FetchURL
        switch try Wiring.document(source, reading) {
        case .stored(let feed, let path):
            let target = try folder.directory(creating: "feed")
            let device = try NewDevice(following: anchor, in: feed, clock: .now)
            try FeedCopy.copyRelease(path, from: feed, into: target, limits: limits)
            return (try Wiring.url("\(target.path)/\(path)"), device)
        case .file(let path): url = try Wiring.url(path)
        case .web(let address): url = address
        }
        var device = try NewDevice(trusting: anchor, clock: .now)
        try await device.follow(inFeed: try FeedDocument.feed(of: url), with: try Wiring.fetcher(network, for: url))
        return (url, device)
    }

    private func verifyHold(_ bytes: [UInt8], of url: FetchURL, device: NewDevice) throws {
        guard device.hasGuard else {
            throw UpdateFailure(
                .keyUnknown, subject: "hold",
                "The keys of --trust include no guard key, so devices ignore this hold. Give the trust root that lists the guard key."
            )
        }
        let hold = try device.verify(hold: bytes, channel: try FeedDocument.channel(of: url))
        Output.give(
            json: common.json,
            [
                "outcome": .string("verified"), "keyIds": .array(hold.signers.map { .string($0.id) }),
                "hold": .object(HoldView.object(hold.document)),
            ],
            lines: [
                "verified: signed by "
                    + hold.signers.map { "\($0.algorithm.rawValue) key \($0.id)" }.joined(separator: ", ")
            ] + HoldView.lines(hold.document))
    }

    /// Verifies a channel file as a new device would. `check` reports which of its releases a device installs.
    private func verifyChannel(_ bytes: [UInt8], of url: FetchURL, device: NewDevice) throws {
        let channel = try FeedDocument.channel(of: url)
        let now = Timestamp.now
        let verified = try device.verify(try ChannelFormat.envelope(parsing: bytes), channel: channel)
        let document = verified.document
        if document.expires <= now {
            throw UpdateFailure(
                .expired, subject: "channel \(document.channel)",
                "The file of channel \(document.channel) expired at \(document.expires). Sign it again with `clientctl channel renew`."
            )
        }
        for release in device.refused(of: document) {
            if release.isMissed { throw release.failure }
            Output.warn(
                "devices refuse version \(release.version). Remove it: "
                    + "clientctl release withdraw --version \(release.version) --channel \(channel)")
        }
        Output.give(
            json: common.json,
            [
                "outcome": .string("verified"), "keyIds": .array(verified.signers.map { .string($0.id) }),
                "channel": .object(ChannelView.object(document, now: now)),
            ],
            lines: [
                "verified: signed by "
                    + verified.signers.map { "\($0.algorithm.rawValue) key \($0.id)" }.joined(separator: ", ")
            ]
                + ChannelView.lines(document, now: now))
    }

    private func verifyStore(_ store: String) throws {
        // A check of a missing store must fail, not find nothing to verify.
        try Wiring.requireStore(store)
        try StoreMark.require(in: try Directory.open(store))
        let inventory = try Inventory.read(at: store)
        let signed = try verifySigned(inventory, inStore: store)
        for bundle in inventory.bundles {
            guard let difference = try InstalledTree.difference(of: bundle, inStoreAt: store) else { continue }
            throw UpdateFailure(
                .storeDamaged, subject: "\(bundle.name): \(difference)",
                "An installed client differs from its receipt: in \(bundle.name), \(difference). "
                    + "Run `clientctl repair --store \(store)`.")
        }
        Output.give(
            json: common.json,
            [
                "outcome": .string("verified"), "versions": .names(inventory.bundles.map(\.name)),
                "signed": .names(signed),
            ],
            lines: inventory.bundles.isEmpty
                ? ["no clients to verify"]
                : inventory.bundles.map { bundle in
                    let what = signed.contains(bundle.name) ? "the signed release" : "its receipt"
                    return "verified \(bundle.name): every file matches \(what)"
                })
    }

    /// Verifies the installed archives with the release keys of `--trust`, or of the newest root in the store that follows it. Returns
    /// the names of these clients.
    private func verifySigned(_ inventory: Inventory, inStore store: String) throws -> [ClientName] {
        guard let path = trust else { return [] }
        let device = try NewDevice(
            trusting: try TrustAnchor.read(at: path), knowing: inventory.ledger.feed, clock: .now)
        let clients = inventory.bundles.filter { $0.version.source == .archive }
        if clients.isEmpty, CommandLineFlags.contain("trust") {
            throw ValidationError(
                "--trust verifies clients that a release key signed, but \(store) does not have any. Run the command without --trust."
            )
        }
        let kind = try StoreKind.read(at: store) ?? .client
        for client in clients {
            _ = try SignedClient.verify(client, inStoreAt: store, trusted: device.keysOfAnyTime(for: kind))
        }
        return clients.map(\.name)
    }
}
