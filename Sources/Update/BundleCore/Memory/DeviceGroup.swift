package import BundleSigning
import BundleValues

/// The names of groups of devices, which a release may name (CONTRACT section 4).
public enum DeviceGroup {
    /// The most groups that a device is in.
    public static let most = 16
    /// What says on a device that it is in no group.
    package static let none = "none"
    /// What names of groups of one device begin with.
    private static let own = "device:"
    private static let ownDigits = 16

    /// What a name of a group is, in words.
    package static let rule = "1 to 64 of a to z, 0 to 9, dot, dash and underscore, no dot in front, and not none"

    /// Whether `text` may name a group.
    public static func isName(_ text: String) -> Bool {
        let bytes = text.utf8
        return (1...64).contains(bytes.count) && bytes.first != UInt8(ascii: ".") && text != none
            && bytes.allSatisfy {
                $0.isASCIIDigit || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || ".-_".utf8.contains($0)
            }
    }

    /// Whether a release may name `text`: a group, or a single device.
    package static func isNamedByReleases(_ text: String) -> Bool {
        guard text.hasPrefix(own) else { return isName(text) }
        let digits = text.utf8.dropFirst(own.utf8.count)
        return digits.count == ownDigits
            && digits.allSatisfy { $0.isASCIIDigit || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0) }
    }

    /// The group that the device with `id` is alone in: `device:` and the first 16 hex digits of SHA-256 of the id's bytes.
    package static func single(_ id: String) throws(OpenSSLFailure) -> String {
        own + String(try SHA256Digest.of(Array(id.utf8)).hex.prefix(ownDigits))
    }

    /// Whether `name`, which a release names, is that of a single device.
    package static func isSingle(_ name: String) -> Bool { name.hasPrefix(own) }

    /// The groups of a device that `text` lists, such as `qa,eu`, sorted and each once; none for `none`. Nil where one of them has no
    /// name of a group, or there are too many.
    package static func list(_ text: String) -> [String]? {
        if text == none { return [] }
        let names = Set(text.split(separator: ",", omittingEmptySubsequences: false).map(String.init))
        guard names.count <= most, names.allSatisfy(isName) else { return nil }
        return names.sorted()
    }
}
