import BundleDisk
import BundleSigning
import CLibrary

/// The identity of this machine.
package enum MachineIdentity {
    private static let path = "/etc/machine-id"

    /// The name of this host; empty if it has none.
    package static var hostName: String {
        var name = [CChar](repeating: 0, count: 256)
        gethostname(&name, name.count - 1)
        return name.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
    }

    /// Returns an id for this product, derived from the machine's id, which must not be disclosed (machine-id(5)): 32
    /// hex digits. Returns nil if the machine does not have one.
    package static func deviceId() throws -> String? {
        guard let bytes = try? File.open(reading: path).readAll(maximumBytes: 4096) else { return nil }
        return try deviceId(ofMachine: String(decoding: bytes, as: UTF8.self))
    }

    /// Returns the id for the content of `/etc/machine-id`. Rejects an id of 32 equal digits, which several machines
    /// may have.
    static func deviceId(ofMachine text: String) throws -> String? {
        let id = text.filter { !$0.isWhitespace }.lowercased()
        guard id.utf8.count == 32, id.allSatisfy(\.isHexDigit), Set(id).count > 1 else { return nil }
        return String(try SHA256Digest.of(Array("swap-clients device \(id)".utf8)).hex.prefix(32))
    }
}
