/// The version of a Meteor bundle: any text that its server chose, usually 40 hexadecimal digits (METEOR section 1.2).
/// Versions have no order.
///
/// The version names a folder, so it must be one valid path component. It must not be a folder name that earlier updaters
/// use for other purposes.
public struct MeteorVersion: Sendable, Hashable, CustomStringConvertible {
    /// The longest version, in bytes.
    public static let maximumBytes = 128
    private static let reserved = ["downloading", "partialdownload", "embedded"]

    /// The version as the server wrote it.
    public let description: String

    /// Accepts 1 to 128 bytes that form one valid path component without a leading dot.
    package init(parsing text: String) throws(MeteorVersionError) {
        let shown = UntrustedName.display(text)
        if text.isEmpty { throw .empty }
        let isOneComponent: Bool
        if text.utf8.count > Self.maximumBytes { throw .tooLong(bytes: text.utf8.count, text: shown) }
        do throws(BundlePathError) {
            isOneComponent = try BundlePath(parsing: text).parent == nil
        } catch {
            throw .refused(rule: error.rule, text: shown)
        }
        if !isOneComponent { throw .notOneComponent(text: shown) }
        if text.utf8.first == UInt8(ascii: ".") { throw .hidden(text: shown) }
        if Self.reserved.contains(text.lowercased()) { throw .reserved(text: shown) }
        description = text
    }

    /// Compares bytes as the file system does; `String` treats NFC and NFD spellings as equal.
    public static func == (left: MeteorVersion, right: MeteorVersion) -> Bool {
        left.description.utf8.elementsEqual(right.description.utf8)
    }

    /// Hashes the bytes.
    public func hash(into hasher: inout Hasher) {
        for byte in description.utf8 { hasher.combine(byte) }
    }
}

/// The reason why a text is not a Meteor version. `text` is printable and has at most one line.
package enum MeteorVersionError: Error, Sendable, Equatable {
    case empty
    /// The text has more than `MeteorVersion.maximumBytes` bytes.
    case tooLong(bytes: Int, text: String)
    /// The text breaks a rule of `BundlePath`.
    case refused(rule: String, text: String)
    case notOneComponent(text: String)
    case hidden(text: String)
    /// The text is a folder name that updaters reserve.
    case reserved(text: String)
}

extension MeteorVersionError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .empty: "the version is empty"
        case .tooLong(let bytes, let text):
            "the version \"\(text)\" has \(bytes) bytes; use at most \(MeteorVersion.maximumBytes)"
        case .refused(let rule, let text): "the version \"\(text)\" cannot name a folder (\(rule))"
        case .notOneComponent(let text): "the version \"\(text)\" has a slash, so it cannot name a folder"
        case .hidden(let text): "the version \"\(text)\" begins with a dot, so it cannot name a folder"
        case .reserved(let text): "the version \"\(text)\" is a folder name that updaters reserve"
        }
    }
}
