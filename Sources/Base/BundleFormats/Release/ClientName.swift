public import BundleValues

/// The name of a client in output and files: `embedded` for the shell's seed, `v1.5.0` for an archive, `meteor-` and
/// its version for a Meteor bundle.
public enum ClientName: Sendable, Hashable, CustomStringConvertible {
    case embedded
    case installed(ClientVersion)

    static let meteorPrefix = "meteor-"

    /// The name, such as `v1.5.0`.
    public var description: String {
        switch self {
        case .embedded: "embedded"
        case .installed(.archive(let version)): version.folderName
        case .installed(.meteor(let version)): Self.meteorPrefix + version.description
        }
    }

    /// The version alone: `1.5.0`, the text of a Meteor version, or `embedded`.
    public var shortDescription: String { version?.description ?? description }

    /// Parses a name. Returns nil for any other text.
    public init?(_ text: String) {
        if text == "embedded" {
            self = .embedded
        } else if let version = try? SemanticVersion(parsingFolderName: text) {
            self = .installed(.archive(version))
        } else if let rest = text.dropping(prefix: Self.meteorPrefix), let version = try? MeteorVersion(parsing: rest) {
            self = .installed(.meteor(version))
        } else {
            return nil
        }
    }

    /// The version of an installed client; nil for the seed.
    public var version: ClientVersion? {
        if case .installed(let version) = self { version } else { nil }
    }
}

/// A client as an operator types it: its name, or its version with or without a leading `v`.
package struct ClientReference: Sendable, Equatable {
    private let text: String

    package init(_ text: String) { self.text = text }

    /// Returns the client of `known` that matches, or else the client that the text names.
    ///
    /// Throws `usage` if several match, or if the text names none.
    package func resolve(among known: [ClientName]) throws(UpdateFailure) -> ClientName {
        let fitting = Set(known).filter(fits)
        if let exact = fitting.first(where: { $0.description.utf8.elementsEqual(text.utf8) }) { return exact }
        if fitting.count > 1 {
            let names = fitting.map(\.description).sorted().joined(separator: " or ")
            throw UpdateFailure(.usage, subject: shown, "\(shown) can be \(names). Write one of these names.")
        }
        if let one = fitting.first ?? ClientName(text) { return one }
        do throws(SemanticVersionError) {
            return .installed(.archive(try SemanticVersion(parsingArgument: text)))
        } catch {
            // A Meteor version may be any text, so the form of the text is not the fault.
            let fault = known.contains { $0.version?.source == .meteor } ? "" : ": \(error)"
            throw UpdateFailure(
                .usage, subject: shown,
                "\(shown) is not a client of this store\(fault). Run `clientctl list` for the names.")
        }
    }

    /// Returns whether the text can mean `name`.
    package func fits(_ name: ClientName) -> Bool {
        let texts = [name.description, name.shortDescription]
        return texts.contains { $0.utf8.elementsEqual(text.utf8) }
    }

    private var shown: String { UntrustedName.display(text) }
}
