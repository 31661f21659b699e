import BundleDisk
import BundleSigning

@testable import BundleFormats
@testable import BundleCore
import BundleValues

/// A hot code push in memory.
struct PushOffer: UpdateOffer {
    let version: MeteorVersion
    /// The seed whose files the push needs; nil if it has all its files.
    let seed: SHA256Digest?
    var files: [String: String]
    /// Whether its download writes a journal, so that the store keeps it after a failure.
    var hasJournal = false

    init(_ version: String, seed: SHA256Digest? = nil) throws {
        self.version = try MeteorVersion(parsing: version)
        self.seed = seed
        files = ["index.html": "push \(version)", "app/app.js": "run(\"\(version)\")"]
    }

    var clientVersion: ClientVersion { .meteor(version) }
    var evidence: [Decision.Outcome] { [] }
    var footprint: Footprint { Footprint(downloadBytes: nil, installedBytes: nil, fileCount: nil) }
}

/// A source with one push.
struct PushSource: UpdateSource {
    let offer: PushOffer
    /// The error that staging throws after all files are written.
    var failure: UpdateFailure?
    /// The version of the shell's seed.
    var seed: MeteorVersion?

    func latestOffer(for request: OfferRequest) -> OfferStep<PushOffer> { .offer(offer) }

    func decide(_ offer: PushOffer, in inventory: Inventory, shell: SemanticVersion, appId: String?) -> Decision {
        let name = ClientName.installed(offer.clientVersion)
        let verdict: Decision.Verdict
        if (inventory.ledger.pending ?? inventory.ledger.current) == name {
            verdict = .upToDate(newest: name)
        } else if let block = inventory.ledger.block(on: offer.clientVersion) {
            verdict = .blocked(block)
        } else if offer.version == seed {
            verdict = .choose(.embedded)
        } else {
            verdict = inventory.bundle(offer.clientVersion) == nil ? .install : .choose(name)
        }
        return Decision(verdict: verdict, outcomes: [])
    }

    func stage(_ offer: PushOffer, in area: StagingArea, reusing installed: ReuseIndex) throws -> StagedBundle {
        let identity = BundleIdentity(version: offer.version, facts: Sample.facts(offer.version), seed: offer.seed)
        var receipt = try area.receipt(for: identity, manifest: .null)
        if offer.hasJournal {
            try Array("{}".utf8).withUnsafeBytes { try area.folder.createFile(StagingArea.journalName, with: $0) }
        }
        for (name, text) in offer.files.sorted(by: { $0.key < $1.key }) {
            let path = try BundlePath(parsing: name)
            var folder = area.tree
            for component in path.components.dropLast() {
                folder = try folder.directory(creating: String(decoding: component, as: UTF8.self))
            }
            let bytes = Array(text.utf8)
            try bytes.withUnsafeBytes { try folder.createFile(path.name, with: $0) }
            try receipt.append(path, size: bytes.count, digest: try .of(bytes))
        }
        if let failure { throw failure }
        return try area.seal(receipt, contentSha256: try .of(Array("\(offer.version)".utf8)), bytesDownloaded: 1)
    }
}

extension StoreBench {
    /// Updates the store from `source`.
    @discardableResult
    func push(_ source: PushSource, sources: SourceOrder? = nil) async throws -> UpdateOutcome {
        try await Updater(
            source: source,
            device: .init(
                store: path, shell: try Sample.version("1.0.0"), appId: nil, keep: 9, sources: sources),
            environment: Environment(log: { [warnings] in warnings.add($0) })
        ).update()
    }

    @discardableResult
    func push(_ version: String, seed: String? = nil) async throws -> UpdateOutcome {
        try await push(PushSource(offer: try PushOffer(version, seed: try seed.map(Sample.seed))))
    }
}

/// A Meteor layout that serves files by their paths.
struct PlainLayout: MeteorLayout {
    func facts(of folder: Directory) -> MeteorFacts? { nil }

    func assets(of folder: Directory, owned: Set<BundlePath>?, inheriting seed: Directory?) throws -> AssetMap {
        try AssetMap(tree: folder)
    }

    func labels(of folder: Directory) -> AssetLabels { .none }
}
