import BundleCore
import BundleDisk
public import BundleSigning

/// The keys whose signatures count.
public struct TrustedKeys: Sendable {
    private static let maximumKeyBytes = 64 * 1024

    /// The keys, each once.
    public let keys: [PublicKey]

    /// Trusts exactly `keys`.
    public init(_ keys: [PublicKey]) {
        self.keys = keys
    }

    /// Reads a PEM public key, or every `*.pem` of a folder. A file that is not a public key is refused, not skipped.
    public static func read(at path: String) throws -> TrustedKeys {
        guard let folder = try folder(path) else { return TrustedKeys([try key(File.open(reading: path))]) }
        var keys: [PublicKey] = []
        for name in try folder.list().sorted() where name.hasSuffix(".pem") {
            // Links are followed: secrets are often mounted as such.
            let key = try key(File.open(reading: "\(path)/\(name)"))
            if !keys.contains(where: { $0.id == key.id }) { keys.append(key) }
        }
        if keys.isEmpty {
            throw UpdateFailure(
                .configInvalid, subject: path, "The folder \(path) holds no *.pem public key: put one there.")
        }
        return TrustedKeys(keys)
    }

    private static func folder(_ path: String) throws(DiskError) -> Directory? {
        do {
            return try Directory.open(path)
        } catch  where error.kind == .unsuitable {
            // A file.
            return nil
        }
    }

    private static func key(_ file: File) throws -> PublicKey {
        do {
            return try PublicKey(parsingPEM: try file.readAll(maximumBytes: maximumKeyBytes))
        } catch let error as KeyError {
            throw UpdateFailure(
                .configInvalid, subject: file.path, "\(file.path) cannot be trusted: \(error).")
        }
    }
}
