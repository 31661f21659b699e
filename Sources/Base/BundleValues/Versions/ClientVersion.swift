/// One way that clients reach a store.
package enum SourceName: String, Sendable, Hashable, CaseIterable, CustomStringConvertible {
    /// Signed archives.
    case archive
    /// Meteor's hot code push.
    case meteor

    /// The word.
    package var description: String { rawValue }
}

/// The version of an installed client, in the terms of the source that brought it.
public enum ClientVersion: Sendable, Hashable, CustomStringConvertible {
    case archive(SemanticVersion)
    case meteor(MeteorVersion)

    /// The source that it came by.
    package var source: SourceName {
        switch self {
        case .archive: .archive
        case .meteor: .meteor
        }
    }

    /// The version as its publisher wrote it: `1.5.1`, or a Meteor server's own text.
    public var description: String {
        switch self {
        case .archive(let version): version.description
        case .meteor(let version): version.description
        }
    }

    /// The name of its folder below the one of its source: `v1.5.1`, or a Meteor version as it is.
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

    /// Reads a version as `description` writes it for that source.
    package init(parsing text: String, of source: SourceName) throws {
        self =
            switch source {
            case .archive: .archive(try SemanticVersion(parsing: text))
            case .meteor: .meteor(try MeteorVersion(parsing: text))
            }
    }

    /// Archives by version, before Meteor bundles, which have no order among themselves.
    static func isInOrder(_ left: ClientVersion, _ right: ClientVersion) -> Bool {
        switch (left, right) {
        case (.archive(let left), .archive(let right)): left < right
        case (.archive, .meteor): true
        case (.meteor, _): false
        }
    }
}

extension Array {
    /// Archives by version, lowest first, then Meteor bundles in the order that they had.
    package mutating func sortByVersion(_ version: (Element) -> ClientVersion) {
        // The standard sort is stable, though only in practice; the offsets make it so by contract.
        self = enumerated().sorted { left, right in
            let (first, second) = (version(left.element), version(right.element))
            if ClientVersion.isInOrder(first, second) { return true }
            return !ClientVersion.isInOrder(second, first) && left.offset < right.offset
        }.map(\.element)
    }
}
