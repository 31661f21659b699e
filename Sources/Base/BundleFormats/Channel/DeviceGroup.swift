package import BundleSigning
import BundleValues

/// The names of device groups that a release may target.
public enum DeviceGroup {
    /// The largest number of groups of a device.
    public static let most = 16
    /// The setting of a device that is in no group.
    package static let none = "none"
    /// The prefix of the group of a single device.
    private static let own = "device:"
    private static let ownDigits = 16

    /// The rule for names, for messages.
    package static let rule = "1 to 64 of a to z, 0 to 9, dot, dash and underscore, no dot in front, and not none"

    /// Returns whether `text` is a valid group name.
    public static func isName(_ text: String) -> Bool {
        let bytes = text.utf8
        return (1...64).contains(bytes.count) && bytes.first != UInt8(ascii: ".") && text != none
            && bytes.allSatisfy {
                $0.isASCIIDigit || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || ".-_".utf8.contains($0)
            }
    }

    /// Returns whether a release may target `text`: a group or a single device.
    package static func isNamedByReleases(_ text: String) -> Bool {
        guard text.hasPrefix(own) else { return isName(text) }
        let digits = text.utf8.dropFirst(own.utf8.count)
        return digits.count == ownDigits
            && digits.allSatisfy { $0.isASCIIDigit || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0) }
    }

    /// Returns the group of the device with `id` alone: `device:` and the first 16 hex digits of the SHA-256 of the
    /// id.
    package static func single(_ id: String) throws(OpenSSLFailure) -> String {
        own + String(try SHA256Digest.of(Array(id.utf8)).hex.prefix(ownDigits))
    }

    /// Returns whether `name` is the group of a single device.
    package static func isSingle(_ name: String) -> Bool { name.hasPrefix(own) }

    /// Parses the groups of a device, such as `qa,eu`. Returns them sorted and without duplicates, or an empty list
    /// for `none`. Returns nil if a name is invalid or there are more than `most`.
    package static func list(_ text: String) -> [String]? {
        if text == none { return [] }
        let names = Set(text.split(separator: ",", omittingEmptySubsequences: false).map(String.init))
        guard names.count <= most, names.allSatisfy(isName) else { return nil }
        return names.sorted()
    }
}
