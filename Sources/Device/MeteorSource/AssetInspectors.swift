import BundleValues
import BundleTransport
import BundleSigning
import Synchronization

/// Inspects an asset by the checks of METEOR section 1.5.
final class LadderInspector: DownloadInspector {
    private let asset: MeteorAsset
    private let verifier: AssetVerifier
    private var digester: AssetDigester?
    private var head: FetchHead?

    init(_ asset: MeteorAsset, verifier: AssetVerifier) throws {
        self.asset = asset
        self.verifier = verifier
        digester = try AssetDigester(for: asset)
    }

    func begin(_ head: FetchHead) throws {
        self.head = head
        // A label of other content decides before the first byte.
        try verifier.refuseOtherLabel(asset, entityTag: head.entityTag)
    }

    func update(_ bytes: UnsafeRawBufferPointer) throws { try digester?.update(bytes) }

    func finish() throws -> DownloadReceipt {
        guard let digests = try digester.take()?.finish() else {
            throw UpdateFailure(
                .internal, subject: asset.urlPath, "\(asset.urlPath) was inspected twice. Please report it.")
        }
        let evidence = try verifier.evidence(for: asset, digests, entityTag: head?.entityTag)
        if !evidence.isProof { try head?.requireEnd() }
        return DownloadReceipt(size: digests.size, sha256: digests.sha256, evidence: evidence.rawValue)
    }
}

/// Inspects the index page by its content, because no manifest describes it (METEOR section 2.3).
final class PageInspector: DownloadInspector {
    private let version: MeteorVersion
    private let stored: PageCheck.KnownApplication
    private let accepted: AcceptedPage
    private var head: FetchHead?
    private var page: [UInt8] = []

    init(version: MeteorVersion, stored: PageCheck.KnownApplication, into accepted: AcceptedPage) {
        self.version = version
        self.stored = stored
        self.accepted = accepted
    }

    func begin(_ head: FetchHead) { self.head = head }

    func update(_ bytes: UnsafeRawBufferPointer) { page.append(contentsOf: bytes) }

    func finish() throws -> DownloadReceipt {
        try head?.requireEnd()
        accepted.store(try PageCheck.check(try RuntimeConfig.read(page: page), version: version, stored: stored))
        return DownloadReceipt(size: page.count, sha256: try .of(page), evidence: AssetEvidence.none.rawValue)
    }
}

extension FetchHead {
    /// Rejects a body that can be truncated if no hash proves that it is complete.
    fileprivate func requireEnd() throws(FetchError) {
        if isDelimited { return }
        throw .invalidResponse(
            effectiveURL, reason: "it has no Content-Length, and no hash proves that it is complete")
    }
}

/// The content of an accepted index page.
final class AcceptedPage: Sendable {
    private let state = Mutex<PageCheck.Accepted?>(nil)

    func store(_ page: PageCheck.Accepted) { state.withLock { $0 = page } }

    var page: PageCheck.Accepted? { state.withLock { $0 } }
}
