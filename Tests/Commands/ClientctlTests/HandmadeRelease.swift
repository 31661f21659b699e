import BundleTesting
import Testing

/// Manifests created with `openssl` by the wire format, independent of our code.
struct HandmadeRelease {
    /// The lines of the statement in their required order.
    static let signedFields = [
        "appId", "version", "sha256", "size", "contentSha256", "installedSize", "fileCount", "minShellVersion",
        "maxShellVersion", "createdAt",
    ]
    static let integers: Set<String> = ["schema", "size", "installedSize", "fileCount"]

    /// The command with which `openssl` signs the file `$2` with the key `$1`.
    static let ed25519 = "openssl pkeyutl -sign -rawin -inkey \"$1\" -in \"$2\""
    static let ecdsa = "openssl dgst -sha256 -sign \"$1\" \"$2\""
    static let rsaPSS =
        "openssl dgst -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32 -sign \"$1\" \"$2\""

    let site: Site

    /// Signs `fields` with the site's key and writes the manifest. Returns its path.
    func write(_ fields: [String: String], to name: String, key: String? = nil, signing openSSL: String = ed25519)
        throws -> String
    {
        var statement = "swap-clients-manifest-v1\n"
        for name in Self.signedFields { statement += "\(name)=\(fields[name] ?? "")\n" }
        let file = try site.folder.write(bytes(statement), to: "\(name).statement")
        let signature = try Clientctl.stock([
            "sh", "-c", "\(openSSL) | base64 -w0", "sh", key ?? site.key, file,
        ])
        let members = fields.sorted { $0.key < $1.key }.map { name, value in
            Self.integers.contains(name) ? "\"\(name)\": \(value)" : "\"\(name)\": \"\(value)\""
        }
        let document = "{\n" + (members + ["\"signature\": \"\(signature)\""]).joined(separator: ",\n") + "\n}\n"
        return try site.folder.write(bytes(document), to: name)
    }

    /// Returns the SHA-256 of a file in lower-case hex, from `sha256sum`.
    static func sha256(_ path: String) throws -> String {
        String(try Clientctl.stock(["sha256sum", path]).prefix(64))
    }

    /// Returns the five required fields for an archive beside the manifest.
    func required(_ version: String, archive: String) throws -> [String: String] {
        [
            "version": version, "url": archive, "sha256": try Self.sha256(site.folder.file(archive)),
            "minShellVersion": "1.0.0",
        ]
    }
}
