import ArchiveSource
import BundleCore
import BundleValues
import BundleDisk
import BundleTesting
import BundleFetch
import BundleSigning
import Glibc
import Testing

/// A device that trusts one key, and its feed, in a temporary folder.
final class Device: Sendable {
    /// libarchive reads names in the process's character set, and Swift starts in "C".
    private static let readsUTF8 = setlocale(LC_CTYPE, "C.UTF-8") != nil
    private static let fetcher = CurlFetcher(options: FetchOptions(userAgent: "tests"))

    let folder: Directory
    let key: SigningPair
    private let temporary: TemporaryDirectory

    init() throws {
        try #require(Self.readsUTF8)
        temporary = try TemporaryDirectory.ofTests()
        folder = temporary.directory
        key = try SigningPair()
        try folder.makeDirectory("feed")
    }

    var storePath: String { "\(folder.path)/store" }

    /// Signs a manifest of the archive at `path` and publishes it.
    func offer(
        _ path: String, as version: String, _ change: (inout Manifest) throws -> Void = { _ in }
    ) throws -> Manifest {
        let bytes = try File.open(reading: path).readAll(maximumBytes: 512 << 20)
        var manifest = Manifest(
            version: try SemanticVersion(parsing: version), url: try FetchURL(filePath: Array(path.utf8)).display,
            sha256: try SHA256Digest.of(bytes), shells: try ShellRange(minimum: SemanticVersion(parsing: "1.0.0")))
        manifest.size = bytes.count
        try change(&manifest)
        try folder.directory("feed").replaceFile("manifest.json", with: try key.sign(manifest))
        return manifest
    }

    /// Runs the update of `clientctl install`.
    func update(
        limits: ArchiveLimits = ArchiveLimits(), keep: Int = 8, seed: String? = nil
    ) async throws -> InstallReport {
        let channel = ArchiveSource(
            source: .manifest(try FetchURL(filePath: Array("\(folder.path)/feed/manifest.json".utf8))),
            anchor: .keys(key.trusted), seed: seed, limits: limits, fetcher: Self.fetcher, report: UpdateObserver())
        let device = Updater<ArchiveSource>.UpdateDevice(
            store: storePath, shell: try SemanticVersion(parsing: "1.0.0"), appId: nil, keep: keep)
        let outcome = try await Updater(source: channel, device: device, environment: Environment()).update()
        guard case .installed(_, let report) = outcome else { throw NotInstalled() }
        return report
    }

    /// Publishes the archive at `path` and installs it.
    @discardableResult
    func install(
        _ path: String, as version: String, limits: ArchiveLimits = ArchiveLimits(),
        _ change: (inout Manifest) throws -> Void = { _ in }
    ) async throws -> InstallReport {
        _ = try offer(path, as: version, change)
        return try await update(limits: limits)
    }

    /// Returns the error of an installation of the archive at `path`; nil if it succeeds.
    func refusal(
        of path: String, as version: String, limits: ArchiveLimits = ArchiveLimits(),
        _ change: (inout Manifest) throws -> Void = { _ in }
    ) async throws -> UpdateFailure? {
        _ = try offer(path, as: version, change)
        do {
            _ = try await update(limits: limits)
            return nil
        } catch {
            return UpdateFailure(error)
        }
    }

    /// The kind, mode and digest of everything in the store by path, without the lock file and failed attempts.
    func storeSnapshot() throws -> [String: String] {
        guard let store = try? folder.directory("store") else { return [:] }
        var found = try snapshot(store).filter { !["lock", "ledger.before.json"].contains($0.key) }
        let ledger = try TreeSnapshot(of: storePath).withoutWanted.files["ledger.json"]
        found["ledger.json"] = ledger.map { String(decoding: $0, as: UTF8.self) }
        return found
    }
}

/// The update did not install a release.
struct NotInstalled: Error {}

/// A new key pair.
///
/// Unchecked `Sendable`: several threads may use an OpenSSL key if none changes it (openssl-threads(7)).
final class SigningPair: @unchecked Sendable {
    let trusted: TrustedKeys
    private let key: PrivateKey

    init(_ algorithm: KeyAlgorithm = .ed25519) throws {
        key = try PrivateKey.generate(algorithm)
        trusted = TrustedKeys([key.publicKey])
    }

    var id: String { trusted.keys[0].id }

    func signature(of statement: [UInt8]) throws -> [UInt8] { try key.sign(statement) }

    /// Returns the manifest's document with this key's signature.
    func sign(_ manifest: Manifest) throws -> [UInt8] {
        JSONWriter.bytes(of: ManifestFormat.document(manifest, signature: try signature(of: manifest.statement())))
    }
}

/// Returns the kind, mode and digest of everything below `folder` by path.
func snapshot(_ folder: Directory, _ prefix: String = "") throws -> [String: String] {
    var found: [String: String] = [:]
    for name in try folder.list() {
        switch try folder.kind(of: name) {
        case .directory?:
            let below = try folder.directory(name)
            found[prefix + name + "/"] = String(try below.permissions().mode, radix: 8)
            found.merge(try snapshot(below, "\(prefix)\(name)/")) { $1 }
        case .file?:
            let file = try folder.file(name)
            let digest = try SHA256Digest.of(try file.readAll(maximumBytes: 1 << 30))
            found[prefix + name] = "\(String(try file.permissions(), radix: 8)) \(digest.hex)"
        default: found[prefix + name] = "neither file nor folder"
        }
    }
    return found
}
