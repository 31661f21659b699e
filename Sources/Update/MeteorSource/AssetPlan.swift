import BundleCore
import BundleValues
import BundleDisk
import BundleDownload
import BundleSigning

/// Where each file of a new bundle comes from.
struct AssetPlan {
    /// A file that is here already, to be linked.
    struct Link: Sendable {
        let file: BundlePath
        let source: Place
        let size: Int
        let digest: SHA256Digest
        /// The journal's words about it, where an interrupted attempt brought it; the next attempt may need them again.
        var kept: (key: String, receipt: DownloadReceipt)?
    }

    /// Where a file is. Not its open folder: a plan may have thousands of them, a process often only 1024 descriptors.
    struct Place: Sendable {
        let tree: Directory
        let file: BundlePath
    }

    /// All that a manifest says about a content.
    private struct Content: Hashable {
        let hash: String
        let size: Int?
        let sri: [UInt8]?
    }

    /// Files that are linked.
    var links: [Link] = []
    /// Assets that must come over the network, in the order of their downloads; the index page first.
    var missing: [MeteorAsset] = []
    /// Assets with the content of a missing one, by its file: linked to it once it is here.
    var twins: [BundlePath: [MeteorAsset]] = [:]

    /// The room that the missing assets need, as far as the manifest knows their sizes.
    var footprint: Footprint {
        var bytes = 0
        for asset in missing {
            let (sum, overflow) = bytes.addingReportingOverflow(asset.size ?? 0)
            bytes = overflow ? .max : sum
        }
        return Footprint(downloadBytes: nil, installedBytes: bytes, fileCount: missing.count)
    }

    /// What tells the content of `asset` from all other, across attempts and versions.
    static func key(_ asset: MeteorAsset) -> String { "\(asset.urlPath) \(asset.hash ?? "-")" }

    /// Adds assets that must come over the network; of those with one content, the first one does.
    mutating func download(_ assets: [MeteorAsset]) {
        var first: [Content: BundlePath] = [:]
        for asset in assets {
            if let hash = asset.hash, !asset.isOptional {
                let content = Content(hash: hash, size: asset.size, sri: asset.sri)
                if let file = first[content] {
                    twins[file, default: []].append(asset)
                    continue
                }
                first[content] = asset.file
            }
            missing.append(asset)
        }
    }

    /// The links that follow from what was downloaded into `tree`.
    func twins(of downloaded: DownloadedFiles, in tree: Directory) -> [Link] {
        downloaded.files.sorted { $0.job < $1.job }.flatMap { asset in
            let file = missing[asset.job].file
            return (twins[file] ?? []).map { twin in
                Link(
                    file: twin.file, source: Place(tree: tree, file: file), size: asset.receipt.size,
                    digest: asset.receipt.sha256)
            }
        }
    }
}

/// Finds out what need not be downloaded (METEOR section 3.3): the seed's files, those of installed bundles and of an
/// interrupted attempt by URL path and hash, and whatever an installed client of either source has under any name if its bytes
/// prove themselves. Reads only.
struct AssetPlanner {
    let manifest: AssetManifest
    let verifier: AssetVerifier
    let bundles: MeteorBundles
    let seed: SeedFolder?
    let installed: ReuseIndex
    let interrupted: InterruptedDownload?

    func plan() throws -> AssetPlan {
        var plan = AssetPlan()
        var open = try groups()
        try inherit(&open)
        var namesakes: Set<ClientVersion> = []
        for source in installed.sources(of: .meteor) where !open.isEmpty {
            if try link(&open, from: source, &plan) { namesakes.insert(source.identity.version) }
        }
        try takeInterrupted(&open, &plan)
        try linkProven(&open, besides: namesakes, &plan)
        plan.download([MeteorAsset.index] + open.sorted { Self.urgency($0.kind) < Self.urgency($1.kind) })
        return plan
    }

    /// One asset for each file: of those that share one, the one under `/__cordova`, which every server has (METEOR 3.3).
    private func groups() throws -> [MeteorAsset] {
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

    private func inherit(_ open: inout [MeteorAsset]) throws {
        guard let seed, let seedManifest = try? bundles.manifest(of: seed.directory) else { return }
        let rule = InheritanceRule(seed: seedManifest.assets, in: seed.directory)
        // A file is inherited only if the seed answers for every URL that it has.
        var foreign: Set<BundlePath> = []
        for asset in manifest.assets where asset.kind != .index {
            if try !isInherited(asset, rule, seed) { foreign.insert(asset.file) }
        }
        open.removeAll { !foreign.contains($0.file) }
    }

    private func isInherited(_ asset: MeteorAsset, _ rule: InheritanceRule, _ seed: SeedFolder) throws -> Bool {
        if try rule.equal(to: asset) != nil { return true }
        guard asset.hash != nil, let neighbour = try rule.neighbour(of: asset) else { return false }
        return try proof(asset, try file(neighbour.file, in: seed.directory)) != nil
    }

    // MARK: Installed Meteor bundles

    /// By hash, under any name; without one by a URL path that names the content. Not a file of another size than it was installed
    /// with, and in the strict mode none that has a hash: what spoke for it is not known. Tells whether a hash was found.
    private func link(
        _ open: inout [MeteorAsset], from source: ReuseIndex.Source, _ plan: inout AssetPlan
    ) throws -> Bool {
        // A bundle whose manifest cannot be read is of no use here; recovery deals with it.
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
        var left: [MeteorAsset] = []
        for asset in open {
            let found = asset.hash.map { byHash[$0] } ?? (asset.isCacheable ? byURL[asset.urlPath] : nil)
            guard let found, verifier.accepts(asset, nil), try folders.size(of: found.path) == found.size else {
                left.append(asset)
                continue
            }
            isNamesake = isNamesake || asset.hash != nil
            plan.links.append(
                AssetPlan.Link(
                    file: asset.file, source: AssetPlan.Place(tree: source.tree, file: found.path), size: found.size,
                    digest: found.digest))
        }
        open = left
        return isNamesake
    }

    // MARK: Interrupted attempts

    private func takeInterrupted(_ open: inout [MeteorAsset], _ plan: inout AssetPlan) throws {
        guard let interrupted else { return }
        var left: [MeteorAsset] = []
        var byHash: [String: TakenAsset] = [:]
        for asset in open {
            guard let taken = try interrupted.take(key: AssetPlan.key(asset)),
                verifier.accepts(asset, AssetEvidence(rawValue: taken.receipt.evidence))
            else {
                left.append(asset)
                continue
            }
            if let hash = asset.hash { byHash[hash] = taken }
            plan.links.append(Self.link(asset, taken))
        }
        // Those with one content came once.
        open = left.filter { asset in
            guard let taken = asset.hash.flatMap({ byHash[$0] }) else { return true }
            plan.links.append(Self.link(asset, taken))
            return false
        }
    }

    private static func link(_ asset: MeteorAsset, _ taken: TakenAsset) -> AssetPlan.Link {
        AssetPlan.Link(
            file: asset.file, source: AssetPlan.Place(tree: taken.tree, file: taken.file), size: taken.receipt.size,
            digest: taken.receipt.sha256, kept: (AssetPlan.key(asset), taken.receipt))
    }

    // MARK: Content under any name

    /// Bundles that name contents as this server does (`namesakes`) have been asked by hash: they have no more of them.
    private func linkProven(
        _ open: inout [MeteorAsset], besides namesakes: Set<ClientVersion>, _ plan: inout AssetPlan
    ) throws {
        let search = try ContentSearch(installed, besides: namesakes, for: open)
        var left: [MeteorAsset] = []
        for asset in open {
            if let link = try search.link(for: asset) { plan.links.append(link) } else { left.append(asset) }
        }
        open = left
    }

    /// The digests of `file` if they prove that it is `asset`; nil otherwise.
    private func proof(_ asset: MeteorAsset, _ file: File?) throws -> AssetDigests? {
        guard let file else { return nil }
        var digester = try AssetDigester(for: asset)
        _ = try file.forEachBlock { try digester.update($0) }
        let digests = try digester.finish()
        return try digests.proof(of: asset) == nil ? nil : digests
    }

    private func file(_ path: BundlePath, in folder: Directory) throws -> File? {
        do {
            return try folder.file(path.string)
        } catch {
            if [.missing, .unsuitable].contains(error.kind) { return nil }
            throw error
        }
    }

    /// Scripts and style sheets first, what is for developers last.
    private static func urgency(_ kind: MeteorAsset.Kind) -> Int {
        switch kind {
        case .index, .script, .stylesheet: 0
        case .dynamicScript, .json, .asset, .other: 1
        case .sourceMap: 2
        }
    }
}
