import BundleCore
package import BundleValues
import BundleSigning

/// Decides whether a file is the one that a manifest lists (METEOR section 1.5, stricter if the bytes allow it).
package struct AssetVerifier: Sendable {
    private let mode: VerificationMode
    private let hasPublicRecipe: Bool

    package init(_ manifest: AssetManifest, mode: VerificationMode) {
        self.mode = mode
        hasPublicRecipe = manifest.hasPublicRecipe
    }

    /// Returns the strongest evidence for an asset. `entityTag` is that of the response; nil for a file that was not
    /// downloaded.
    ///
    /// Throws `AssetRefusal` if the file is wrong, or an error of OpenSSL.
    package func evidence(
        for asset: MeteorAsset, _ digests: AssetDigests, entityTag: String?
    ) throws -> AssetEvidence {
        let label = entityTag.flatMap(AssetLabel.hash(entityTag:))
        try refuseOtherLabel(asset, entityTag: entityTag)
        if asset.kind.isCode, digests.beginsAsPage { throw AssetRefusal(of: asset, .page) }
        if let proof = try digests.proof(of: asset) { return proof }
        // A digest that could match but does not decides, whatever the label.
        if asset.sri != nil, !mayDiffer(asset, size: digests.size) { throw AssetRefusal(of: asset, .otherContent) }
        if hasPublicRecipe, asset.kind == .asset, asset.hash != nil { throw AssetRefusal(of: asset, .otherContent) }
        if let label, label == asset.hash { return .label }
        if mode == .strict, asset.hash != nil { throw AssetRefusal(of: asset, .unverified) }
        return .none
    }

    /// Rejects a response with the label of other content before its first byte.
    package func refuseOtherLabel(_ asset: MeteorAsset, entityTag: String?) throws(AssetRefusal) {
        guard let hash = asset.hash, let label = entityTag.flatMap(AssetLabel.hash(entityTag:)), label != hash else {
            return
        }
        throw AssetRefusal(of: asset, .otherLabel(label))
    }

    /// Whether a server can have changed the size of the measured file: it adds a comment to a dynamic script and removes
    /// comments from others.
    private func mayDiffer(_ asset: MeteorAsset, size: Int) -> Bool {
        asset.kind == .dynamicScript || asset.size.map { size < $0 } ?? true
    }

    /// Whether a file that was accepted for `asset` before is accepted again. `evidence` is that of its download, if
    /// known.
    func accepts(_ asset: MeteorAsset, evidence: AssetEvidence?) -> Bool {
        mode == .compatible || asset.hash == nil || (evidence ?? .none) != .none
    }

    /// A downloaded asset with its evidence and size.
    package typealias Inspected = (asset: MeteorAsset, evidence: AssetEvidence, size: Int)

    /// Returns the assets that the others show to be wrong. If the bytes of one asset prove its hash, those of all assets
    /// that the server names in the same way must: a label or no evidence is not enough.
    ///
    /// These are the files of the `public` folder, and, if hashes are digests of the bytes, all other files from which no
    /// comment was removed.
    package static func inconsistencies(_ inspected: [Inspected]) -> [AssetRefusal] {
        let inspected = inspected.filter { $0.asset.hash != nil && $0.asset.sri == nil }
        let publicFiles = inspected.filter { $0.asset.kind == .asset }
        var suspects: [Inspected] = publicFiles.contains(where: \.evidence.isProof) ? publicFiles : []
        if inspected.contains(where: { $0.evidence == .sha1 }) {
            suspects += inspected.filter {
                [.script, .stylesheet, .json].contains($0.asset.kind) && $0.size >= $0.asset.size ?? .max
            }
        }
        return suspects.filter { !$0.evidence.isProof }.map { AssetRefusal(of: $0.asset, .otherContent) }
    }
}

/// An asset that differs from the manifest.
package struct AssetRefusal: Error, Sendable, Equatable {
    package enum Reason: Sendable, Equatable {
        /// The response has the label of other content.
        case otherLabel(String)
        /// The response is a web page instead of a script or style sheet.
        case page
        /// The bytes do not match the digest.
        case otherContent
        /// There is no evidence, and the mode is strict.
        case unverified
    }

    /// The URL path of the asset.
    package let urlPath: String
    /// The hash in the manifest.
    package let hash: String?
    package let reason: Reason

    init(of asset: MeteorAsset, _ reason: Reason) {
        urlPath = asset.urlPath
        hash = asset.hash
        self.reason = reason
    }
}

extension AssetRefusal: ClassifiedFailure, CustomStringConvertible {
    package var description: String {
        switch reason {
        case .otherLabel(let label):
            "Hash mismatch for asset: \(urlPath): the server sent the one labelled \(label), not \(hash ?? "-")"
        case .page: "Hash mismatch for asset: \(urlPath): a web page came in its place"
        case .otherContent: "Hash mismatch for asset: \(urlPath): its bytes are not those that the manifest lists"
        case .unverified: "Hash mismatch for asset: \(urlPath): nothing proves that its bytes are those of the manifest"
        }
    }

    /// The code is always `digestMismatch`.
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
