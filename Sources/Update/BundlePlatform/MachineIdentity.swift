import BundleDisk
import BundleSigning

/// What tells this machine from others.
package enum MachineIdentity {
    private static let path = "/etc/machine-id"

    /// An id for this product made from the machine's id, which is not to be shown to others (machine-id(5)): 32 hex digits;
    /// nil where the machine has none.
    package static func deviceId() throws -> String? {
        guard let bytes = try? File.open(reading: path).readAll(maximumBytes: 4096) else { return nil }
        let id = String(decoding: bytes, as: UTF8.self).filter(\.isHexDigit)
        guard id.utf8.count == 32 else { return nil }
        return String(try SHA256Digest.of(Array("swap-clients device \(id)".utf8)).hex.prefix(32))
    }
}
