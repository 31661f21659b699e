import BundleCore
package import BundleValues
import BundleSigning

/// Decides whether what arrived is what a manifest lists (METEOR section 1.5, and stricter where the bytes allow it).
package struct AssetVerifier: Sendable {
    private let mode: VerificationMode
    private let hasPublicRecipe: Bool

    /// Judges the assets of `manifest`.
    package init(_ manifest: AssetManifest, mode: VerificationMode) {
        self.mode = mode
        hasPublicRecipe = manifest.hasPublicRecipe
    }

    /// What speaks for an asset, the strongest; `entityTag` is the answer's, nil for a file that no server sent.
    ///
    /// Throws `AssetRefusal` where something speaks against it; beyond that only if OpenSSL cannot work.
    package func evidence(
        for asset: MeteorAsset, _ digests: AssetDigests, entityTag: String?
    ) throws -> AssetEvidence {
        let label = entityTag.flatMap(AssetLabel.hash(entityTag:))
        try refuseWrongResponse(asset, digests, entityTag: entityTag)
        if let proof = try digests.proof(of: asset) { return proof }
        try refuseDisproved(asset, digests)
        if let label, label == asset.hash { return .label }
        if mode == .strict, asset.hash != nil { throw AssetRefusal(asset, .unverified) }
        return .none
    }

    /// Refuses an answer that is labelled as other content, which can be told before its first byte.
    package func refuseOtherLabel(_ asset: MeteorAsset, entityTag: String?) throws(AssetRefusal) {
        guard let hash = asset.hash, let label = entityTag.flatMap(AssetLabel.hash(entityTag:)), label != hash else {
            return
        }
        throw AssetRefusal(asset, .otherLabel(label))
    }

    /// What refuses an answer in every mode, whatever its bytes prove.
    private func refuseWrongResponse(
        _ asset: MeteorAsset, _ digests: AssetDigests, entityTag: String?
    ) throws(AssetRefusal) {
        try refuseOtherLabel(asset, entityTag: entityTag)
        if asset.kind.isCode, digests.beginsAsPage { throw AssetRefusal(asset, .page) }
    }

    /// What refuses bytes that prove nothing although they could, whatever their label says.
    private func refuseDisproved(_ asset: MeteorAsset, _ digests: AssetDigests) throws(AssetRefusal) {
        if asset.sri != nil, !mayDiffer(digests.size, asset) { throw AssetRefusal(asset, .otherContent) }
        if hasPublicRecipe, asset.kind == .asset, asset.hash != nil { throw AssetRefusal(asset, .otherContent) }
    }

    /// Whether a server may have made these `size` bytes of the file that was measured: it adds a comment to a dynamic script, and
    /// takes comments off others, which makes them shorter.
    private func mayDiffer(_ size: Int, _ asset: MeteorAsset) -> Bool {
        asset.kind == .dynamicScript || asset.size.map { size < $0 } ?? true
    }

    /// Whether a file that was taken for `asset` before may be taken again; `evidence` is what spoke for it then, nil where that is
    /// not known.
    func accepts(_ asset: MeteorAsset, _ evidence: AssetEvidence?) -> Bool {
        mode == .compatible || asset.hash == nil || (evidence ?? .none) != .none
    }

    /// An asset that was downloaded: what speaks for it, and its bytes.
    package typealias Judged = (asset: MeteorAsset, evidence: AssetEvidence, size: Int)

    /// Which assets of one attempt are refused in the light of the others: where one proves itself by its hash, so must all
    /// that the server names in the same way; a label, or nothing, is not enough.
    ///
    /// Those are the files of its `public` folder, and, where hashes are those of the bytes, every other file from which no
    /// comment was taken.
    package static func inconsistencies(_ judged: [Judged]) -> [AssetRefusal] {
        let judged = judged.filter { $0.asset.hash != nil && $0.asset.sri == nil }
        let publicFiles = judged.filter { $0.asset.kind == .asset }
        var suspects: [Judged] = publicFiles.contains(where: \.evidence.isProof) ? publicFiles : []
        if judged.contains(where: { $0.evidence == .sha1 }) {
            suspects += judged.filter {
                [.script, .stylesheet, .json].contains($0.asset.kind) && $0.size >= $0.asset.size ?? .max
            }
        }
        return suspects.filter { !$0.evidence.isProof }.map { AssetRefusal($0.asset, .otherContent) }
    }
}

/// An asset that is not what the manifest lists.
package struct AssetRefusal: Error, Sendable, Equatable {
    /// What speaks against it.
    package enum Reason: Sendable, Equatable {
        /// The answer carries the label of another content.
        case otherLabel(String)
        /// It is a web page, not a script or style sheet.
        case page
        /// The bytes do not belong to the digest.
        case otherContent
        /// Nothing speaks for it, and the mode is strict.
        case unverified
    }

    /// The URL path of the asset.
    package let urlPath: String
    /// What the manifest calls its content.
    package let hash: String?
    /// What speaks against it.
    package let reason: Reason

    init(_ asset: MeteorAsset, _ reason: Reason) {
        urlPath = asset.urlPath
        hash = asset.hash
        self.reason = reason
    }
}

extension AssetRefusal: ClassifiedFailure, CustomStringConvertible {
    /// What was refused, and why.
    package var description: String {
        switch reason {
        case .otherLabel(let label):
            "Hash mismatch for asset: \(urlPath): the server sent the one labelled \(label), not \(hash ?? "-")"
        case .page: "Hash mismatch for asset: \(urlPath): a web page came in its place"
        case .otherContent: "Hash mismatch for asset: \(urlPath): its bytes are not those that the manifest lists"
        case .unverified: "Hash mismatch for asset: \(urlPath): nothing proves that its bytes are those of the manifest"
        }
    }

    /// Always `digestMismatch`.
    package var failure: UpdateFailure {
        let advice =
            switch reason {
            case .otherLabel: "The server may have changed during the download; try again."
            case .page: "Check that the network does not ask for a login, then try again."
            case .otherContent: "Something between here and the server changed it; try again on another network."
            case .unverified: "Let the server send its entity tags unchanged, or use the compatible mode."
            }
        return UpdateFailure(.digestMismatch, subject: urlPath, "\(description). \(advice)")
    }
}
