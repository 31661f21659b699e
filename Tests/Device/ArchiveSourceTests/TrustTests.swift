import ArchiveSource
import BundleCore
import BundleValues
import BundleDisk
import BundleTesting
import BundleSigning
import Testing

@Suite struct ManifestVerifierTests {
    private func manifest(hint: String? = nil) throws -> Manifest {
        var manifest = Manifest(
            version: try SemanticVersion(parsing: "1.5.1"), url: "a", sha256: try SHA256Digest.of([]),
            shells: try ShellRange(minimum: SemanticVersion(parsing: "1.0.0")))
        manifest.keyId = hint
        return manifest
    }

    private func outcome(_ document: [UInt8], _ trusted: TrustedKeys) throws -> (key: String?, code: FailureCode?) {
        do {
            return (
                try ManifestVerifier.verify(try ManifestFormat.parse(document), trusted: trusted).signers.first?.id, nil
            )
        } catch let failure as UpdateFailure {
            return (nil, failure.code)
        }
    }

    @Test(arguments: KeyAlgorithm.allCases) func `accepts a signature of a trusted key with any key id`(
        _ algorithm: KeyAlgorithm
    ) throws {
        let signer = try SigningPair(algorithm)
        let other = try SigningPair()
        let both = TrustedKeys(other.trusted.keys + signer.trusted.keys)
        for hint in [nil, signer.id, other.id, "nobody's"] {
            let document = try signer.sign(manifest(hint: hint))
            #expect(try outcome(document, signer.trusted) == (signer.id, nil))
            #expect(try outcome(document, both) == (signer.id, nil))
        }
    }

    @Test func `rejects a signature of another key with the code of its key id`() throws {
        let foreign = try SigningPair()
        let trusted = try SigningPair()
        #expect(try outcome(foreign.sign(manifest(hint: foreign.id)), trusted.trusted) == (nil, .keyUnknown))
        #expect(try outcome(foreign.sign(manifest(hint: trusted.id)), trusted.trusted) == (nil, .signatureInvalid))
        #expect(try outcome(foreign.sign(manifest()), trusted.trusted) == (nil, .signatureInvalid))
        #expect(try outcome(trusted.sign(manifest()), TrustedKeys([])) == (nil, .signatureInvalid))
    }

    static let changes: [@Sendable (inout Manifest) throws -> Void] = [
        { $0.version = try SemanticVersion(parsing: "1.5.2") }, { $0.sha256 = try SHA256Digest.of([1]) },
        { $0.appId = "com.example" }, { $0.size = 1 }, { $0.contentSha256 = try SHA256Digest.of([]) },
        { $0.installedSize = 1 }, { $0.fileCount = 1 },
        { $0.shells = try ShellRange(minimum: SemanticVersion(parsing: "0.9.0")) },
        {
            $0.shells = try ShellRange(minimum: $0.shells.minimum, maximum: SemanticVersion(parsing: "9.0.0"))
        },
        { $0.createdAt = try Timestamp(parsing: "2026-01-02T03:04:05Z") },
    ]

    @Test(arguments: changes.indices) func `rejects a manifest with a changed signed field`(_ index: Int) throws {
        let pair = try SigningPair()
        var manifest = try manifest()
        let signature = try pair.signature(of: try manifest.statement())
        try Self.changes[index](&manifest)
        let document = JSONWriter.bytes(of: ManifestFormat.document(manifest, signature: signature))
        #expect(try outcome(document, pair.trusted) == (nil, .signatureInvalid))
    }

    @Test func `accepts a manifest with another URL, key id or release notes`() throws {
        let pair = try SigningPair()
        var manifest = try manifest()
        let signature = try pair.signature(of: try manifest.statement())
        (manifest.url, manifest.keyId, manifest.notesSha256) = ("https://mirror.example/b", "hint", manifest.sha256)
        let document = JSONWriter.bytes(of: ManifestFormat.document(manifest, signature: signature))
        #expect(try outcome(document, pair.trusted) == (pair.id, nil))
    }

    @Test func `verifies the signature before it downloads or writes`() async throws {
        let device = try Device()
        let foreign = try SigningPair()
        let manifest = try device.offer(try device.tar([]), as: "1.0.0") { $0.url = "file:///nowhere" }
        try device.folder.directory("feed").replaceFile("manifest.json", with: try foreign.sign(manifest))
        let failure = await #expect(throws: UpdateFailure.self) { _ = try await device.update() }
        #expect(failure?.code == .signatureInvalid)
        #expect(!File.exists(device.storePath))
    }
}

@Suite struct TrustAnchorTests {
    let temporary: TemporaryDirectory
    var folder: Directory { temporary.directory }

    init() throws { temporary = try TemporaryDirectory.ofTests() }

    private func write(_ name: String, _ bytes: [UInt8]) throws {
        try bytes.withUnsafeBytes { try folder.createFile(name, with: $0) }
    }

    private func failure() -> FailureCode? {
        do {
            _ = try TrustAnchor.read(at: folder.path)
            return nil
        } catch {
            return UpdateFailure(error).code
        }
    }

    @Test func `requires at least one signature`() throws {
        let key = try PrivateKey.generate(.ed25519).publicKey
        #expect(TrustedKeys([key], threshold: 0).threshold == 1)
    }

    @Test func `reads every PEM file of a folder and removes duplicates`() throws {
        let keys = try KeyAlgorithm.allCases.map { try PrivateKey.generate($0).publicKey }
        for (index, key) in keys.enumerated() {
            try write("\(index).pem", Array(key.pem.utf8))
            try write("\(index)-again.pem", Array(key.pem.utf8))
        }
        try write("README", Array("not a key".utf8))
        let read = try TrustAnchor.read(at: folder.path).keys(for: .release, at: .now).keys.map(\.id)
        #expect(read.count == keys.count)
        #expect(Set(read) == Set(keys.map(\.id)))
    }

    @Test func `reads one key from a file`() throws {
        let key = try PrivateKey.generate(.ed25519).publicKey
        try write("key", Array(key.pem.utf8))
        #expect(try TrustAnchor.read(at: folder.path + "/key").keys(for: .release, at: .now).keys.map(\.id) == [key.id])
    }

    @Test func `rejects a folder with a PEM file that is not a public key`() throws {
        let pair = try PrivateKey.generate(.ed25519)
        try write("good.pem", Array(pair.publicKey.pem.utf8))
        #expect(failure() == nil)
        for bad in [try pair.pem(passphrase: nil), Array("rubbish".utf8), [], [UInt8](repeating: 0x41, count: 70_000)] {
            try write("bad.pem", bad)
            #expect(failure() != nil)
            try folder.removeFile("bad.pem")
        }
    }

    @Test func `rejects a folder without PEM files`() throws {
        #expect(failure() == .configInvalid)
        try write("key.pub", Array(PrivateKey.generate(.ed25519).publicKey.pem.utf8))
        #expect(failure() == .configInvalid)
        #expect(throws: (any Error).self) { _ = try TrustAnchor.read(at: folder.path + "/missing") }
    }
}
