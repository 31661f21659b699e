package import BundleDisk
import BundleValues

/// The required endpoints of an installed release. Its manifest was verified before its installation.
package struct ReleaseEndpoints: Sendable {
    /// At least one path or http or https URL.
    package let addresses: [String]
    private let receipt: File

    /// Reads the endpoints in a receipt. Returns nil if there are none.
    package init?(receipt: File) {
        guard let manifest = try? Receipt.manifest(of: receipt),
            let addresses = manifest.objectValue?["requiredEndpoints"]?.arrayValue?.compactMap(\.stringValue),
            !addresses.isEmpty
        else { return nil }
        self.addresses = addresses
        self.receipt = receipt
    }

    /// Returns whether the client has the file that a page requests at `path`, which may have a query.
    package func hasFile(at path: String) throws -> Bool {
        let bytes = PercentEncoding.decode(
            Array(path.utf8.dropFirst().prefix { ![UInt8(ascii: "?"), UInt8(ascii: "#")].contains($0) }))
        guard let wanted = try? BundlePath(parsing: bytes.isEmpty ? Array("index.html".utf8) : bytes) else {
            return false
        }
        var isFound = false
        try Receipt.forEachLine(of: receipt) { line, _ in
            if let record = Receipt.record(line), record.path == wanted { isFound = true }
        }
        return isFound
    }
}
