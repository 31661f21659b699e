import BundleCore
import BundleDisk
import BundleSigning
import BundleTransport
import BundleValues
import CLibrary

/// One attempt at a bundle: it plans, links, downloads and writes the receipt.
struct BundleStaging {
    let offer: MeteorOffer
    let server: MeteorServerOptions
    let urls: MeteorURLs
    let seed: SeedFolder?
    let stored: PageCheck.KnownApplication
    let fetcher: any Fetcher
    let gate: FetchGate
    let area: StagingArea
    let installed: ReuseIndex
    let report: UpdateObserver

    private var manifest: AssetManifest { offer.manifest }

    func run() async throws -> StagedBundle {
        report(.planning)
        let verifier = AssetVerifier(manifest, mode: server.verification)
        let interrupted = try area.interrupted().map {
            try InterruptedDownload(reading: $0, tree: StagingArea.treeName)
        }
        let planner = AssetPlanner(
            manifest: manifest, verifier: verifier, bundles: MeteorBundles(platform: server.platform),
            seed: seed, installed: installed, interrupted: interrupted)
        let plan = try await onThread { try planner.plan() }
        try await onThread { [area, seed] in try area.requireRoom(for: plan.footprint, inheriting: seed) }
        report(.downloading(bytes: 0, of: nil))
        let page = AcceptedPage()
        let jobs = try plan.missing.map { try job($0, verifier: verifier, page: page) }
        let linker = AssetLinker(tree: area.tree, attempt: area.folder)
        // Precedes the downloads, which write the same journal.
        try await onThread { try linker.keep(plan.links.filter { $0.kept != nil }) }
        // Links use the disk, and downloads use the network.
        let links = plan.links.filter { $0.kept == nil }
        async let linked: Void = onThread { try linker.link(links[..<(links.count / 2)]) }
        async let linkedToo: Void = onThread { try linker.link(links[(links.count / 2)...]) }
        let downloader = downloader(interrupted)
        let downloaded =
            jobs.isEmpty
            ? try await downloader.run(jobs)
            : try await gate.admit(offer.terms, load: .files, bytes: plan.footprint.downloadBytes) {
                try await downloader.run(jobs)
            }
        _ = try await (linked, linkedToo)
        try refuseInconsistencies(of: downloaded, plan: plan)
        report(.settling)
        let twins = plan.twins(of: downloaded, in: area.tree)
        return try await onThread {
            try linker.link(twins[...])
            return try seal(plan, links: plan.links + twins, downloaded: downloaded, page: try accepted(page))
        }
    }

    // MARK: Downloading

    private func downloader(_ interrupted: InterruptedDownload?) -> AssetDownloader {
        var policy = DownloadPolicy()
        policy.requests = server.downloads
        return AssetDownloader(
            tree: area.tree, attempt: area.folder, earlier: interrupted, fetcher: fetcher, policy: policy,
            environment: gate.environment, requireRoom: { [area] in try area.requireRoom() },
            report: { [report] in report(.downloading(bytes: $0.bytes, of: nil)) })
    }

    private func job(_ asset: MeteorAsset, verifier: AssetVerifier, page: AcceptedPage) throws -> AssetJob {
        if asset.kind == .index {
            let (version, stored) = (manifest.version, stored)
            return AssetJob(
                url: urls.index, name: asset.urlPath, file: asset.file, key: "/ \(version)",
                maximumBytes: MeteorBundles.maximumPageBytes
            ) { PageInspector(version: version, stored: stored, into: page) }
        }
        return AssetJob(
            url: try urls.asset(asset.urlPath), name: asset.urlPath, file: asset.file, key: AssetPlan.key(asset),
            maximumBytes: maximumBytes(asset), isOptional: asset.isOptional
        ) { try LadderInspector(asset, verifier: verifier) }
    }

    /// A server adds a comment to some files after it measured them.
    private func maximumBytes(_ asset: MeteorAsset) -> Int {
        min(asset.size.map { $0.addingReportingOverflow(1 << 20).partialValue } ?? .max, server.maximumFileBytes)
    }

    // MARK: Writing down

    private func accepted(_ page: AcceptedPage) throws -> PageCheck.Accepted {
        guard let accepted = page.page else {
            throw UpdateFailure(
                .internal, subject: "/", "The index page was placed without an inspection. Please report it.")
        }
        return accepted
    }

    /// Rejects files that only the whole bundle shows to be wrong (METEOR section 1.5).
    private func refuseInconsistencies(of downloaded: DownloadedFiles, plan: AssetPlan) throws {
        let inspected = downloaded.files.compactMap { asset -> AssetVerifier.Inspected? in
            AssetEvidence(rawValue: asset.receipt.evidence).map { (plan.missing[asset.job], $0, asset.receipt.size) }
        }
        if let refusal = AssetVerifier.inconsistencies(inspected).first { throw refusal }
    }

    private func seal(
        _ plan: AssetPlan, links: [AssetPlan.AssetLink], downloaded: DownloadedFiles, page: PageCheck.Accepted
    ) throws -> StagedBundle {
        try manifest.bytes.withUnsafeBytes { try area.tree.createFile(MeteorBundles.manifestName, with: $0) }
        let facts = MeteorFacts(
            version: manifest.version, appId: page.appId, rootURL: page.rootURL.description,
            compatibility: offer.compatibility)
        let identity = BundleIdentity(version: manifest.version, facts: facts, seed: seed?.identity)
        let program = try SHA256Digest.of(manifest.bytes)
        var receipt = try area.receipt(
            for: identity,
            manifest: .object(["sha256": .string(program.hex), "size": .integer(manifest.bytes.count)]))

        var files = [(try BundlePath(parsing: MeteorBundles.manifestName), manifest.bytes.count, program)]
        files += links.map { ($0.file, $0.size, $0.digest) }
        files += downloaded.files.map { (plan.missing[$0.job].file, $0.receipt.size, $0.receipt.sha256) }
        // A receipt must not depend on whether a file was linked or downloaded.
        files.sort { $0.0.bytes.lexicographicallyPrecedes($1.0.bytes) }
        var content = try SHA256Hasher()
        var line: [UInt8] = []
        for (file, size, digest) in files {
            try receipt.append(file, size: size, digest: digest)
            line.replaceSubrange(line.startIndex..., with: file.bytes)
            line.append(UInt8(ascii: " "))
            digest.appendHex(to: &line)
            line.append(UInt8(ascii: "\n"))
            try content.update(line)
        }
        return try area.seal(
            receipt, contentSha256: try content.finish(),
            bytesDownloaded: manifest.bytes.count + downloaded.bytesFromNetwork)
    }
}

/// Places existing files in a new tree by hard links, or by copies.
private struct AssetLinker: Sendable {
    let tree: Directory
    let attempt: Directory

    /// Places files of an interrupted attempt and adds them to the journal of this attempt, which can be interrupted too.
    func keep(_ links: [AssetPlan.AssetLink]) throws {
        try link(links[...])
        if links.isEmpty { return }
        let journal = try AssetJournal(in: attempt)
        for link in links {
            guard let kept = link.kept else { continue }
            try journal.append(
                .complete(key: JournalText(kept.key), CompleteAsset(file: link.file, receipt: kept.receipt)))
        }
    }

    /// Places files of installed clients.
    func link(_ links: ArraySlice<AssetPlan.AssetLink>) throws {
        let folders = TreeFolders(root: tree)
        var sources: [ObjectIdentifier: FolderCache] = [:]
        for link in links {
            let id = ObjectIdentifier(link.source.tree)
            let source = sources[id] ?? FolderCache(link.source.tree)
            sources[id] = source
            guard let folder = try source.folder(of: link.source.file) else {
                throw DiskError("open", at: "\(link.source.tree.path)/\(link.source.file)", code: ENOENT)
            }
            try place(link, from: folder, in: try folders.folder(of: link.file))
        }
    }

    private func place(_ link: AssetPlan.AssetLink, from source: Directory, in folder: Directory) throws {
        let name = link.source.file.name
        do {
            try source.link(name, to: folder, as: link.file.name)
        } catch {
            guard [.crossesDevice, .tooManyLinks, .permission].contains(error.kind) else {
                let failure = error.failure
                throw UpdateFailure(
                    failure.code, subject: failure.subject, "Could not link to cached asset: \(failure.message)")
            }
            let source = try source.file(name)
            let copy = try folder.file(creating: link.file.name)
            _ = try source.forEachBlock { try copy.write($0) }
        }
    }
}
