import BundleFormats
import ArchiveSource
import BundleValues
import BundleSigning
import BundleTesting

/// The days of the scenarios: day 0 is January 1, 2027. Devices are at day 10 by default.
enum Day {
    static func number(_ day: Int, _ seconds: Int = 0) -> Timestamp {
        Timestamp(clamping: 1_798_761_600 + day * 86_400 + seconds)
    }
}

/// A publisher with real keys, and a real server that returns its files or others.
final class TrustFeed: Sendable {
    /// The keys that all feeds of a run share.
    private static let pool = Result { try freshKeys() }

    let server: LoopbackServer
    /// Keys 0 to 9 are for scenarios, and 0 signs roots; then those of releases and of channels.
    let keys: [SigningPair]
    let appId: String?

    var root: SigningPair { keys[0] }
    var release: SigningPair { keys[10] }
    var channel: SigningPair { keys[11] }

    /// Creates a feed with the shared keys, or with new keys as another publisher.
    init(appId: String? = nil, hasOwnKeys: Bool = false) throws {
        self.appId = appId
        server = try LoopbackServer()
        keys = try hasOwnKeys ? Self.freshKeys() : Self.pool.get()
    }

    private static func freshKeys() throws -> [SigningPair] { try (0..<12).map { _ in try SigningPair() } }

    // MARK: Releases

    /// The archives have equal lengths and differ in their digests.
    static func archive(_ version: String) -> [UInt8] {
        TarOf.bytes([.index, TarItem("version.txt", Array(version.utf8))])
    }

    static func archivePath(_ version: String) -> String { "/releases/v\(version)/client.tar" }

    func manifest(_ version: String) throws -> Manifest {
        let bytes = Self.archive(version)
        var manifest = Manifest(
            version: try SemanticVersion(parsing: version), url: Self.archivePath(version),
            sha256: try SHA256Digest.of(bytes), shells: try ShellRange(minimum: SemanticVersion(parsing: "1.0.0")))
        manifest.size = bytes.count
        manifest.appId = appId
        return manifest
    }

    func signed(_ manifest: Manifest, by signers: [SigningPair]) throws -> [UInt8] {
        let statement = try manifest.statement()
        let signatures = try signers.map {
            SignedEnvelope.Signature(keyId: $0.id, bytes: try $0.signature(of: statement))
        }
        return JSONWriter.bytes(
            of: ManifestFormat.document(
                manifest, signature: signatures[0].bytes, others: Array(signatures.dropFirst())))
    }

    /// Returns a release whose archive is on the server.
    func release(
        _ version: String, by signers: [SigningPair]? = nil, _ change: (inout Manifest) throws -> Void = { _ in }
    ) throws -> ChannelDocument.Release {
        var manifest = try manifest(version)
        let signers = signers ?? [release]
        manifest.keyId = signers[0].id
        try change(&manifest)
        server.set(Self.archivePath(version), Route(Self.archive(version)))
        return ChannelDocument.Release(try ManifestFormat.parse(try signed(manifest, by: signers)))
    }

    /// Serves a flat manifest at `/manifest.json`.
    func offerFlat(
        _ version: String, by signers: [SigningPair]? = nil, _ change: (inout Manifest) throws -> Void = { _ in }
    ) throws {
        let bytes = JSONWriter.bytes(of: try release(version, by: signers, change).manifest.document)
        server.set("/manifest.json", Route(bytes))
    }

    // MARK: Channel documents

    func document(_ sequence: Int, _ releases: [ChannelDocument.Release]) -> ChannelDocument {
        var document = ChannelDocument(
            appId: appId, channel: "stable", sequence: sequence, issuedAt: Day.number(9), expires: Day.number(40))
        document.releases = releases
        return document
    }

    func offer(_ document: ChannelDocument, by signers: [SigningPair]? = nil) throws {
        serve(
            try ChannelFormat.envelope(document).signed(by: signers ?? [channel]).document, as: document.channel)
    }

    /// Serves a document with these versions.
    func offer(
        _ sequence: Int, _ versions: [String], by signers: [SigningPair]? = nil,
        _ change: (inout ChannelDocument) throws -> Void = { _ in }
    ) throws {
        var document = document(sequence, try versions.map { try release($0) })
        try change(&document)
        try offer(document, by: signers)
    }

    /// Serves a document with 1.1.0 whose payload is changed before it is signed.
    func offer(_ sequence: Int, payload change: ([UInt8]) throws -> [UInt8]) throws {
        let payload = try change(ChannelFormat.payload(document(sequence, [try release("1.1.0")])))
        let envelope = SignedEnvelope(payloadType: ChannelFormat.payloadType, payload: payload)
        serve(try envelope.signed(by: [channel]).document)
    }

    /// Serves bytes as the channel document.
    func serve(_ bytes: [UInt8], as channel: String = "stable") {
        server.set("/channels/\(channel).json", Route(bytes))
    }

    // MARK: Trust roots

    /// Returns a root with one key for each role, after `change`.
    func trustRoot(_ version: Int = 1, _ change: (inout TrustRoot) -> Void = { _ in }) -> TrustRoot {
        var trust = TrustRoot(
            version: version, appId: appId, issued: Day.number(0), expires: Day.number(365), keys: [], roles: [:])
        trust.set(.root, [root])
        trust.set(.release, [release])
        trust.set(.channel, [channel])
        change(&trust)
        return trust
    }

    /// Serves the next root.
    func publish(
        _ version: Int, by signers: [SigningPair]? = nil, _ change: (inout TrustRoot) -> Void = { _ in }
    ) throws {
        let envelope = try TrustRootFormat.envelope(trustRoot(version, change)).signed(by: signers ?? [root])
        serve(envelope.document, asRoot: version)
    }

    func serve(_ bytes: [UInt8], asRoot version: Int) { server.set("/trust/\(version).json", Route(bytes)) }

    /// Returns the anchor of a device with `trust`, by default the first root.
    func pinned(_ trust: TrustRoot? = nil, by signers: [SigningPair]? = nil) throws -> TrustAnchor {
        let envelope = try TrustRootFormat.envelope(trust ?? trustRoot()).signed(by: signers ?? [root])
        return .root(try TrustChain.start(try TrustRootFormat.parse(envelope.document)))
    }
}

extension TrustRoot {
    /// Sets the keys of `role`.
    mutating func set(_ role: TrustRole, _ pairs: [SigningPair], threshold: Int = 1) {
        for pair in pairs where !keys.contains(where: { $0.publicKey.id == pair.id }) {
            keys.append(Key(pair.trusted.keys[0]))
        }
        roles[role] = Role(threshold: threshold, keyIds: pairs.map(\.id))
    }
}

extension SignedEnvelope {
    func signed(by signers: [SigningPair]) throws -> SignedEnvelope {
        var envelope = self
        envelope.signatures += try signers.map {
            Signature(keyId: $0.id, bytes: try $0.signature(of: message))
        }
        return envelope
    }
}

/// Returns a JSON document after `change`.
func edited(_ bytes: [UInt8], _ change: (inout JSONObject) throws -> Void) throws -> [UInt8] {
    var object = try JSONScanner.parse(bytes, maximumBytes: bytes.count).objectValue ?? [:]
    try change(&object)
    return JSONWriter.bytes(of: .object(object))
}
