import BundleCore
import BundleTesting
import Testing

/// Manifests made with `openssl` alone, from the contract and not from this product's code.
struct HandmadeRelease {
    /// The lines of the statement, in the contract's order.
    static let signedFields = [
        "appId", "version", "sha256", "size", "contentSha256", "installedSize", "fileCount", "minShellVersion",
        "maxShellVersion", "createdAt",
    ]
    static let integers: Set<String> = ["schema", "size", "installedSize", "fileCount"]

    let site: Site

    /// Signs `fields` with the site's key and writes the manifest; gives its path.
    func write(_ fields: [String: String], to name: String, key: String? = nil) throws -> String {
        var statement = "swap-clients-manifest-v1\n"
        for name in Self.signedFields { statement += "\(name)=\(fields[name] ?? "")\n" }
        let file = try site.folder.write(bytes(statement), to: "\(name).statement")
        let signature = try Clientctl.stock([
            "sh", "-c", "openssl pkeyutl -sign -rawin -inkey \"$1\" -in \"$2\" | base64 -w0", "sh", key ?? site.key, file,
        ])
        let members = fields.sorted { $0.key < $1.key }.map { name, value in
            Self.integers.contains(name) ? "\"\(name)\": \(value)" : "\"\(name)\": \"\(value)\""
        }
        let document = "{\n" + (members + ["\"signature\": \"\(signature)\""]).joined(separator: ",\n") + "\n}\n"
        return try site.folder.write(bytes(document), to: name)
    }

    /// Lower-case hex of the SHA-256 of a file, from `sha256sum`.
    static func sha256(_ path: String) throws -> String {
        String(try Clientctl.stock(["sha256sum", path]).prefix(64))
    }

    /// The five required fields for an archive beside the manifest.
    func required(_ version: String, archive: String) throws -> [String: String] {
        [
            "version": version, "url": archive, "sha256": try Self.sha256(site.folder.file(archive)),
            "minShellVersion": "1.0.0",
        ]
    }
}
