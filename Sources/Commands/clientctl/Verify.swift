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
            With --store, every installed file is compared with its receipt; a difference
            ends with status 33.

            Examples:
              clientctl verify https://updates.example.com/manifest.json \\
                --trust release.pub.pem
              clientctl verify https://updates.example.com/channels/stable.json \\
                --trust trust.json
              clientctl verify feed/releases/v1.5.0/manifest.json \\
                --trust release.pub.pem --rebuild dist
              clientctl verify --store /var/lib/clientctl
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
        let url = try Wiring.url(
            source.hasPrefix("s3://")
                ? Wiring.bring(source, into: temporary.directory.directory(creating: "feed"), reading, settings)
                : Wiring.document(source))
        let anchor = try TrustAnchor.read(at: try settings.required("trust", trust))
        let fetcher = try Wiring.fetcher(network, for: url, settings)
        if url.description.contains("/channels/"), rebuild == nil {
            let file = try await SpoolFile.fetch(
                url, with: fetcher, maximumBytes: ChannelFormat.maximumBytes, into: temporary.directory)
            let bytes = try file.readAll(maximumBytes: ChannelFormat.maximumBytes)
            return url.path.hasSuffix(".hold.json")
                ? try verifyHold(bytes, anchor, settings) : try verifyChannel(bytes, anchor, settings)
        }
        let report = try await ReleaseVerifier(
            manifestURL: url, trusted: anchor.keys(for: .release, at: .now),
            limits: try limits.limits(settings), fetcher: fetcher,
            scratch: temporary.directory
        ).verify()
        if let rebuild {
            let look = try FolderLook(Directory.open(rebuild), excluding: excluded, dropping: drops)
            do {
                try ReleaseVerifier.require(look.tree, rebuilds: report)
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

    private func verifyHold(_ bytes: [UInt8], _ anchor: TrustAnchor, _ settings: Settings) throws {
        let envelope = try HoldFormat.envelope(parsing: bytes)
        guard case .root(let root) = anchor, root.root.roles[.guard] != nil else {
            throw UpdateFailure(
                .keyUnknown, subject: "hold",
                "--trust names no guard, so no device heeds this hold: give the trust root that does.")
        }
        let hold = try HoldVerifier.verify(
            envelope, channel: try HoldFormat.parse(envelope).channel, trusted: anchor.keys(for: .guard, at: .now))
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

    /// What a device that knows nothing yet would take; which release of it, `check` tells.
    private func verifyChannel(_ bytes: [UInt8], _ anchor: TrustAnchor, _ settings: Settings) throws {
        let envelope = try ChannelFormat.envelope(parsing: bytes)
        let now = Timestamp.now
        let verified = try ChannelVerifier.verify(
            envelope, channel: try ChannelFormat.parse(envelope).claims.channel,
            trusted: anchor.keys(for: .channel, at: now))
        let document = verified.document
        if document.expires <= now {
            throw UpdateFailure(
                .expired, subject: "channel \(document.channel)",
                "The document of channel \(document.channel) expired at \(document.expires): sign it anew with `clientctl release resign`."
            )
        }
        for release in document.releases {
            _ = try ManifestVerifier.verify(release.manifest, trusted: anchor.keys(for: .release, at: now))
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
        for bundle in inventory.bundles {
            guard let difference = try InstalledTree.difference(of: bundle, inStoreAt: store) else { continue }
            throw UpdateFailure(
                .storeDamaged, subject: "\(bundle.name): \(difference)",
                "The store disagrees with its receipts: in \(bundle.name), \(difference). "
                    + "Run `clientctl repair --store \(store)`.")
        }
        Output.give(
            json: try settings.isOn("json", common.json),
            ["outcome": .string("verified"), "versions": .names(inventory.bundles.map(\.name))],
            inventory.bundles.isEmpty
                ? ["no clients to verify"]
                : inventory.bundles.map { "verified \($0.name): every file is what was installed" })
    }
}
