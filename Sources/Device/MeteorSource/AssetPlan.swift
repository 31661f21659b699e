import BundleCore
import BundleValues
import BundleDisk
import BundleTransport
import BundleSigning

/// The source of each file of a new bundle.
struct AssetPlan {
    /// An existing file to link.
    struct AssetLink: Sendable {
        let file: BundlePath
        let source: ExistingFile
        let size: Int
        let digest: SHA256Digest
        /// The journal entry of a file from an interrupted attempt, which the next attempt can need again.
        var kept: (key: String, receipt: DownloadReceipt)?
    }

    /// The location of a file. It does not hold the folder open, because a plan can have thousands of files and a process
    /// only 1024 descriptors.
    struct ExistingFile: Sendable {
        let tree: Directory
        let file: BundlePath
    }

    /// All properties of a content in a manifest.
    private struct ListedContent: Hashable {
        let hash: String
        let size: Int?
        let sri: [UInt8]?
    }

    /// The assets whose source is not decided yet.
    var open: [MeteorAsset]
    /// The files to link.
    var links: [AssetLink] = []
    /// The assets to download in order, the index page first.
    var missing: [MeteorAsset] = []
    /// The assets with the same content as a missing one, by its file. They are linked to it after its download.
    var twins: [BundlePath: [MeteorAsset]] = [:]

    /// The space that the missing assets need, as far as the manifest states their sizes.
    var footprint: Footprint {
        let bytes = missing.reduce(0) { $0.adding(count: $1.size ?? 0) }
        return Footprint(downloadBytes: nil, installedBytes: bytes, fileCount: missing.count)
    }

    /// Identifies the content of an asset across attempts and versions.
    static func key(_ asset: MeteorAsset) -> String { "\(asset.urlPath) \(asset.hash ?? "-")" }

    /// Links the open assets for which `link` returns a link. The others stay open.
    mutating func linkOpen(_ link: (MeteorAsset) throws -> AssetLink?) rethrows {
        var left: [MeteorAsset] = []
        for asset in open {
            if let link = try link(asset) { links.append(link) } else { left.append(asset) }
        }
        open = left
    }

    /// Adds assets to download. Only the first of several with the same content is downloaded.
    mutating func download(_ assets: [MeteorAsset]) {
        var first: [ListedContent: BundlePath] = [:]
        for asset in assets {
            if let hash = asset.hash, !asset.isOptional {
                let content = ListedContent(hash: hash, size: asset.size, sri: asset.sri)
                if let file = first[content] {
                    twins[file, default: []].append(asset)
                    continue
                }
                first[content] = asset.file
            }
            missing.append(asset)
        }
    }

    /// Returns the links to files that were downloaded into `tree`.
    func twins(of downloaded: DownloadedFiles, in tree: Directory) -> [AssetLink] {
        downloaded.files.sorted { $0.job < $1.job }.flatMap { asset in
            let file = missing[asset.job].file
            return (twins[file] ?? []).map { twin in
                AssetLink(
                    file: twin.file, source: ExistingFile(tree: tree, file: file), size: asset.receipt.size,
                    digest: asset.receipt.sha256)
            }
        }
    }
}

/// Finds the files that need no download (METEOR section 3.3): those of the seed, those of installed bundles and of an
/// interrupted attempt by URL path and hash, and files of any installed client under any name if their digests match. It
/// only reads.
struct AssetPlanner {
    let manifest: AssetManifest
    let verifier: AssetVerifier
    let bundles: MeteorBundles
    let seed: SeedFolder?
    let installed: ReuseIndex
    let interrupted: InterruptedDownload?

    func plan() throws -> AssetPlan {
        var plan = AssetPlan(open: groups())
        try inherit(in: &plan)
        var namesakes: Set<ClientVersion> = []
        for source in installed.sources(of: .meteor) where !plan.open.isEmpty {
            if try link(from: source, in: &plan) { namesakes.insert(source.identity.version) }
        }
        try linkInterrupted(in: &plan)
        // Bundles of a server that names contents in the same way were searched by hash already.
        let search = try ContentSearch(installed, besides: namesakes, for: plan.open)
        try plan.linkOpen { try search.link(for: $0) }
        plan.download([MeteorAsset.index] + plan.open.sorted { Self.urgency($0.kind) < Self.urgency($1.kind) })
        return plan
    }

    /// Returns one asset for each file. Of several it prefers the one under `/__cordova`, which every server has (METEOR
    /// section 3.3).
    private func groups() -> [MeteorAsset] {
        var places: [BundlePath: Int] = [:]
        var chosen: [MeteorAsset] = []
        for asset in manifest.assets where asset.kind != .index {
            if let place = places[asset.file] {
                if asset.urlPath.hasPrefix("/__") { chosen[place] = asset }
            } else {
                places[asset.file] = chosen.count
                chosen.append(asset)
            }
        }
        return chosen
    }

    private func inherit(in plan: inout AssetPlan) throws {
        guard let seed, let seedManifest = try? bundles.manifest(of: seed.directory) else { return }
        let rule = InheritanceRule(seed: seedManifest.assets, in: seed.directory)
        // A file is inherited only if the seed has it for all its URLs.
        var foreign: Set<BundlePath> = []
        for asset in manifest.assets where asset.kind != .index {
            if try !isInherited(asset, by: rule, from: seed) { foreign.insert(asset.file) }
        }
        plan.open.removeAll { !foreign.contains($0.file) }
    }

    private func isInherited(_ asset: MeteorAsset, by rule: InheritanceRule, from seed: SeedFolder) throws -> Bool {
        if try rule.equal(to: asset) != nil { return true }
        guard asset.hash != nil, let neighbour = try rule.neighbour(of: asset) else { return false }
        guard let file = try seed.directory.file(ifPresent: neighbour.file.string) else { return false }
        var digester = try AssetDigester(for: asset)
        _ = try file.forEachBlock { try digester.update($0) }
        return try digester.finish().proof(of: asset) != nil
    }

    // MARK: Installed Meteor bundles

    /// Links files by hash under any name, or without a hash by a URL path that names the content. It skips files whose
    /// size changed since their installation, and in the strict mode files with a hash, because their evidence is not
    /// known. Returns whether it found a hash.
    private func link(from source: ReuseIndex.ReuseSource, in plan: inout AssetPlan) throws -> Bool {
        // A bundle with an unreadable manifest cannot be used; recovery handles it.
        guard let manifest = try? bundles.manifest(of: source.tree) else { return false }
        let records = try source.records()
        var byHash: [String: Receipt.FileRecord] = [:]
        var byURL: [String: Receipt.FileRecord] = [:]
        byHash.reserveCapacity(manifest.assets.count)
        for asset in manifest.assets where asset.kind != .index {
            guard let record = records[asset.file] else { continue }
            if let hash = asset.hash {
                byHash[hash] = record
            } else if asset.isCacheable {
                byURL[asset.urlPath] = record
            }
        }
        let folders = FolderCache(source.tree)
        var isNamesake = false
        try plan.linkOpen { asset in
            let found = asset.hash.map { byHash[$0] } ?? (asset.isCacheable ? byURL[asset.urlPath] : nil)
            guard let found, verifier.accepts(asset, evidence: nil), try folders.size(of: found.path) == found.size
            else {
                return nil
            }
            isNamesake = isNamesake || asset.hash != nil
            return AssetPlan.AssetLink(
                file: asset.file, source: AssetPlan.ExistingFile(tree: source.tree, file: found.path), size: found.size,
                digest: found.digest)
        }
        return isNamesake
    }

    // MARK: Interrupted attempts

    private func linkInterrupted(in plan: inout AssetPlan) throws {
        guard let interrupted else { return }
        var byHash: [String: VerifiedAsset] = [:]
        try plan.linkOpen { asset in
            guard let verified = try interrupted.verified(key: AssetPlan.key(asset)),
                verifier.accepts(asset, evidence: AssetEvidence(rawValue: verified.receipt.evidence))
            else { return nil }
            if let hash = asset.hash { byHash[hash] = verified }
            return Self.link(asset, to: verified)
        }
        // Of assets with the same content, one was downloaded.
        plan.linkOpen { asset in asset.hash.flatMap { byHash[$0] }.map { Self.link(asset, to: $0) } }
    }

    private static func link(_ asset: MeteorAsset, to verified: VerifiedAsset) -> AssetPlan.AssetLink {
        AssetPlan.AssetLink(
            file: asset.file, source: AssetPlan.ExistingFile(tree: verified.tree, file: verified.file),
            size: verified.receipt.size, digest: verified.receipt.sha256, kept: (AssetPlan.key(asset), verified.receipt)
        )
    }

    /// Downloads scripts and style sheets first, and source maps last.
    private static func urgency(_ kind: MeteorAsset.Kind) -> Int {
        switch kind {
        case .index, .script, .stylesheet: 0
        case .dynamicScript, .json, .asset, .other: 1
        case .sourceMap: 2
        }
    }
}
