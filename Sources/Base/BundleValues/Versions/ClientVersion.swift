/// The kinds of sources from which clients are installed.
package enum SourceName: String, Sendable, Hashable, CaseIterable, CustomStringConvertible {
    /// Signed archives.
    case archive
    /// Meteor's hot code push.
    case meteor

    package var description: String { rawValue }
}

/// The version of an installed client, in the form of its source.
public enum ClientVersion: Sendable, Hashable, CustomStringConvertible {
    case archive(SemanticVersion)
    case meteor(MeteorVersion)

    /// The source that installed the client.
    package var source: SourceName {
        switch self {
        case .archive: .archive
        case .meteor: .meteor
        }
    }

    /// The version as the publisher wrote it: `1.5.1`, or the text of a Meteor server.
    public var description: String {
        switch self {
        case .archive(let version): version.description
        case .meteor(let version): version.description
        }
    }

    /// The name of the client's folder: `v1.5.1`, or the Meteor version unchanged.
    public var folderName: String {
        switch self {
        case .archive(let version): version.folderName
        case .meteor(let version): version.description
        }
    }

    /// The version of an archive; nil for a Meteor bundle.
    public var semantic: SemanticVersion? {
        if case .archive(let version) = self { version } else { nil }
    }

    /// The version of a Meteor bundle; nil for an archive.
    public var meteor: MeteorVersion? {
        if case .meteor(let version) = self { version } else { nil }
    }

    /// Parses the `description` of a version from `source`.
    package init(parsing text: String, of source: SourceName) throws {
        self =
            switch source {
            case .archive: .archive(try SemanticVersion(parsing: text))
            case .meteor: .meteor(try MeteorVersion(parsing: text))
            }
    }

    /// Sorts archives by version and before Meteor bundles, which have no order.
    static func isInOrder(_ left: ClientVersion, _ right: ClientVersion) -> Bool {
        switch (left, right) {
        case (.archive(let left), .archive(let right)): left < right
        case (.archive, .meteor): true
        case (.meteor, _): false
        }
    }
}

extension Array {
    /// Sorts archives by version, lowest first, then Meteor bundles in their present order.
    package mutating func sortByVersion(_ version: (Element) -> ClientVersion) {
        // The standard sort does not guarantee stability, so the offsets decide between equal versions.
        self = enumerated().sorted { left, right in
            let (first, second) = (version(left.element), version(right.element))
            if ClientVersion.isInOrder(first, second) { return true }
            return !ClientVersion.isInOrder(second, first) && left.offset < right.offset
        }.map(\.element)
    }
}
