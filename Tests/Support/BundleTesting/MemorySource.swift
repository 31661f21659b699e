package import BundleCore
package import BundleValues
import BundleDisk
import BundleSigning

/// A source with one release in memory, which it stages like any other source.
package struct MemorySource: UpdateSource {
    private let offer: MemoryOffer
    private let failure: UpdateFailure?

    /// Offers `offer`. With a `failure`, staging throws it after writing the files.
    package init(_ offer: MemoryOffer, failure: UpdateFailure? = nil) {
        self.offer = offer
        self.failure = failure
    }

    package func latestOffer(for request: OfferRequest) -> OfferStep<MemoryOffer> { .offer(offer) }

    /// Writes the files and the receipt of the release.
    package func stage(
        _ offer: MemoryOffer, in area: StagingArea, reusing installed: ReuseIndex
    ) throws -> StagedBundle {
        let identity = BundleIdentity(version: offer.version, shells: offer.shells)
        var receipt = try area.receipt(
            for: identity, manifest: .object(["version": .string(offer.version.description)]))
        var content: [UInt8] = []
        for (name, text) in offer.files.sorted(by: { $0.key < $1.key }) {
            let path = try BundlePath(parsing: name)
            var folder = area.tree
            for component in path.components.dropLast() {
                folder = try folder.directory(creating: String(decoding: component, as: UTF8.self))
            }
            let bytes = Array(text.utf8)
            try bytes.withUnsafeBytes { try folder.createFile(path.name, with: $0) }
            try receipt.append(path, size: bytes.count, digest: try .of(bytes))
            content += path.bytes + [0] + bytes + [0]
        }
        if let failure { throw failure }
        return try area.seal(receipt, contentSha256: try .of(content), bytesDownloaded: content.count)
    }
}

/// A release in memory.
package struct MemoryOffer: ReleaseOffer {
    package let version: SemanticVersion
    package let shells: ShellRange
    package let appId: String?
    package var evidence: [Decision.Outcome] { [] }
    /// The stated footprint.
    package let footprint: Footprint
    /// The texts of the files by path.
    package let files: [String: String]

    /// Describes a release for the shells from `minimumShell` to `maximumShell`. By default it has an `index.html` that
    /// names the version, and one more file in a folder.
    package init(
        _ version: String, minimumShell: String = "1.0.0", maximumShell: String? = nil, appId: String? = nil,
        footprint: Footprint = Footprint(downloadBytes: nil, installedBytes: nil, fileCount: nil),
        files: [String: String]? = nil
    ) throws {
        self.version = try SemanticVersion(parsing: version)
        shells = try ShellRange(
            minimum: try SemanticVersion(parsing: minimumShell),
            maximum: try maximumShell.map { try SemanticVersion(parsing: $0) })
        self.appId = appId
        self.footprint = footprint
        self.files = files ?? ["index.html": "client \(version)", "assets/app.js": "run(\"\(version)\")"]
    }
}
