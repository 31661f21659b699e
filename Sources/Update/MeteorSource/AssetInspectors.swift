import BundleValues
import BundleDownload
import BundleSigning
import Synchronization

/// Judges one asset by the ladder of METEOR section 1.5.
final class LadderInspector: DownloadInspector {
    private let asset: MeteorAsset
    private let verifier: AssetVerifier
    private var digester: AssetDigester?
    private var head: FetchHead?

    init(_ asset: MeteorAsset, _ verifier: AssetVerifier) throws {
        self.asset = asset
        self.verifier = verifier
        digester = try AssetDigester(for: asset)
    }

    func begin(_ head: FetchHead) throws {
        self.head = head
        // A label of other content says enough, before the first byte.
        try verifier.refuseOtherLabel(asset, entityTag: head.entityTag)
    }

    func update(_ bytes: UnsafeRawBufferPointer) throws { try digester?.update(bytes) }

    func finish() throws -> DownloadReceipt {
        guard let digests = try digester.take()?.finish() else {
            throw UpdateFailure(
                .internal, subject: asset.urlPath, "\(asset.urlPath) was judged twice. Please report it.")
        }
        let evidence = try verifier.evidence(for: asset, digests, entityTag: head?.entityTag)
        if !evidence.isProof { try head?.requireEnd() }
        return DownloadReceipt(size: digests.size, sha256: digests.sha256, evidence: evidence.rawValue)
    }
}

/// Judges the index page, which no manifest describes, by what it says (METEOR section 2.3).
final class PageInspector: DownloadInspector {
    private let version: MeteorVersion
    private let stored: PageCheck.Stored
    private let accepted: AcceptedPage
    private var head: FetchHead?
    private var page: [UInt8] = []

    init(_ version: MeteorVersion, _ stored: PageCheck.Stored, _ accepted: AcceptedPage) {
        self.version = version
        self.stored = stored
        self.accepted = accepted
    }

    func begin(_ head: FetchHead) { self.head = head }

    func update(_ bytes: UnsafeRawBufferPointer) { page.append(contentsOf: bytes) }

    func finish() throws -> DownloadReceipt {
        try head?.requireEnd()
        accepted.take(try PageCheck.check(try RuntimeConfig.read(page: page), version: version, stored: stored))
        return DownloadReceipt(size: page.count, sha256: try .of(page), evidence: AssetEvidence.none.rawValue)
    }
}

extension FetchHead {
    /// Refuses a body that may have been cut short, where no hash proves that it is whole.
    fileprivate func requireEnd() throws(FetchError) {
        if isDelimited { return }
        throw .invalidResponse(
            effectiveURL, reason: "it has no Content-Length, and no hash proves that nothing of it is missing")
    }
}

/// What the index page of an attempt said, once it is accepted.
final class AcceptedPage: Sendable {
    private let state = Mutex<PageCheck.Accepted?>(nil)

    func take(_ page: PageCheck.Accepted) { state.withLock { $0 = page } }

    var page: PageCheck.Accepted? { state.withLock { $0 } }
}
