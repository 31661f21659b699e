import BundleFormats
import BundleDisk
import BundleValues

/// A client with its serving root, which is not removed while this value exists. Only `Launcher` creates it.
public struct ReadyClient: Sendable {
    /// The name of the client.
    public let name: ClientName
    /// The source of the client: `archive`, `meteor` or `embedded`.
    public let source: String
    /// The client's serving root.
    public let root: OrganizedRoot
    let use: FileLock?
    let receipt: File?
    let manifest: Directory?
    let layout: (any MeteorLayout)?
    /// The facts that pages may read about the client; nil for the seed.
    package let facts: ClientFacts?

    /// Returns the members of the asset manifest about its files, or the digests in the receipt of files larger than
    /// `size`.
    package func labels(ofFilesOver size: Int) throws -> AssetLabels {
        if let manifest, let layout { return try layout.labels(of: manifest) }
        var labels: [BundlePath: AssetLabels.Label] = [:]
        if let receipt {
            try Receipt.forEachLine(of: receipt) { line, _ in
                guard let record = Receipt.record(line), record.size > size else { return }
                labels[record.path] = AssetLabels.Label(digest: record.digest)
            }
        }
        return AssetLabels(labels)
    }

    /// The endpoints of its release; nil if it has none.
    package var endpoints: ReleaseEndpoints? { receipt.flatMap(ReleaseEndpoints.init) }

    /// The addresses that have to answer before its start is confirmed: paths, and http and https URLs. `ClientShell` asks them.
    public var requiredEndpoints: [String] { endpoints?.addresses ?? [] }

    /// Whether its page may declare origins: a signed release, or a seed, which is as trusted as its shell. A Meteor
    /// bundle may not, because a server sends it unsigned.
    package var mayDeclareOrigins: Bool { name.version.map { $0.source == .archive } ?? (manifest == nil) }
}

/// A client that is chosen and prepared. Only `Launcher` creates it.
package struct PreparedLaunch: Sendable {
    package let choice: SelectionRule.Choice
    package let client: ReadyClient
}

/// A recorded launch. Only `Launcher` creates it.
public struct Launched: Sendable {
    package let prepared: PreparedLaunch
    /// The secret that a verdict requires.
    public let token: LaunchToken
    /// Whether the client awaits its confirmation.
    public let isTrial: Bool
    /// Whether the ledger has the launch; false if the disk refused writes.
    public let isRecorded: Bool
    /// Whether an earlier start of the client was reported as failed.
    package private(set) var wasReportedFailed = false

    /// The launched client.
    public var name: ClientName { prepared.choice.name }
}
