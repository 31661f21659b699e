package import BundleCore
package import BundleValues
import BundleDisk
import BundleSigning

/// A channel whose one release stands in memory; it fills a staging area as any other channel does.
package struct MemorySource: UpdateSource {
    private let offer: MemoryOffer
    private let failure: UpdateFailure?

    /// Offers `offer`. With a `failure`, staging throws it once every file but the receipt's end is written.
    package init(_ offer: MemoryOffer, failure: UpdateFailure? = nil) {
        self.offer = offer
        self.failure = failure
    }

    /// The release.
    package func latestOffer(for request: OfferRequest) -> OfferStep<MemoryOffer> { .offer(offer) }

    /// Writes the release's files and its receipt.
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
            try bytes.withUnsafeBytes { try folder.createFile(path.name, $0) }
            try receipt.append(path, size: bytes.count, digest: try .of(bytes))
            content += path.bytes + [0] + bytes + [0]
        }
        if let failure { throw failure }
        return try area.seal(receipt, contentSha256: try .of(content), bytesDownloaded: content.count)
    }
}

/// A release that stands in memory.
package struct MemoryOffer: ReleaseOffer {
    /// The version offered.
    package let version: SemanticVersion
    /// The shells it is for.
    package let shells: ShellRange
    /// The application it belongs to.
    package let appId: String?
    /// None.
    package var evidence: [Decision.Outcome] { [] }
    /// The room it says it needs.
    package let footprint: Footprint
    /// Its files: path and text.
    package let files: [String: String]

    /// Describes a release for the shells from `minimumShell` to `maximumShell`; one without `files` has an
    /// `index.html` that names the version, and one more file below a folder.
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
