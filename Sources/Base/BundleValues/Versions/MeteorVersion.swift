/// The version of a Meteor bundle: any text its server chose, usually 40 hex digits (METEOR section 1.2). Two are equal or
/// different; there is no order.
///
/// It names a folder, so it is held to the rules of one path component, and to those of its history: it is none of the names
/// that other updaters give to folders of their own.
public struct MeteorVersion: Sendable, Hashable, CustomStringConvertible {
    /// The longest version, in bytes.
    public static let maximumBytes = 128
    private static let reserved = ["downloading", "partialdownload", "embedded"]

    /// The version as the server wrote it.
    public let description: String

    /// Accepts 1 to 128 bytes that make one safe path component and do not begin with a dot.
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

    /// Equal when the bytes are: Swift would call NFC and NFD spellings equal, the disk does not.
    public static func == (left: MeteorVersion, right: MeteorVersion) -> Bool {
        left.description.utf8.elementsEqual(right.description.utf8)
    }

    /// Feeds the bytes.
    public func hash(into hasher: inout Hasher) {
        for byte in description.utf8 { hasher.combine(byte) }
    }
}

/// Why a text is no Meteor version; `text` is always printable and cut to a line.
package enum MeteorVersionError: Error, Sendable, Equatable {
    /// There is none.
    case empty
    /// The text has more than `MeteorVersion.maximumBytes` bytes.
    case tooLong(bytes: Int, text: String)
    /// The text breaks a rule for path components.
    case refused(rule: String, text: String)
    /// The text has a slash.
    case notOneComponent(text: String)
    /// The text begins with a dot.
    case hidden(text: String)
    /// The text names a folder that updaters use for themselves.
    case reserved(text: String)
}

extension MeteorVersionError: CustomStringConvertible {
    /// One sentence for people: what was refused, and why.
    package var description: String {
        switch self {
        case .empty: "the version is empty"
        case .tooLong(let bytes, let text):
            "the version \"\(text)\" has \(bytes) bytes; use at most \(MeteorVersion.maximumBytes)"
        case .refused(let rule, let text): "the version \"\(text)\" cannot name a folder (\(rule))"
        case .notOneComponent(let text): "the version \"\(text)\" has a slash, so it cannot name a folder"
        case .hidden(let text): "the version \"\(text)\" begins with a dot, so it cannot name a folder"
        case .reserved(let text): "the version \"\(text)\" is the name of a folder that updaters use for themselves"
        }
    }
}
