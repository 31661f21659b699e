public import BundleValues

/// What a client is called in every answer: `embedded` for the shell's own seed, `v1.5.0` for one that came as an archive,
/// `meteor-` and its version for a Meteor bundle.
public enum ClientName: Sendable, Hashable, CustomStringConvertible {
    case embedded
    case installed(ClientVersion)

    static let meteorPrefix = "meteor-"

    /// The name as it appears in answers.
    public var description: String {
        switch self {
        case .embedded: "embedded"
        case .installed(.archive(let version)): version.folderName
        case .installed(.meteor(let version)): Self.meteorPrefix + version.description
        }
    }

    /// The name as a `version` in answers: `1.5.0`, a Meteor version as its server wrote it, or `embedded`.
    public var shortDescription: String { version?.description ?? description }

    /// Reads a name; nil where it is none.
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

/// A client as people type it: its name, or its version alone, with or without a leading `v`.
package struct ClientReference: Sendable, Equatable {
    private let text: String

    /// What was typed.
    package init(_ text: String) { self.text = text }

    /// The client that is meant: one of `known` where one fits, else the one that the text names by itself.
    ///
    /// `usage` where several fit, or where it names none.
    package func resolve(among known: [ClientName]) throws(UpdateFailure) -> ClientName {
        let fitting = Set(known).filter(fits)
        if let exact = fitting.first(where: { $0.description.utf8.elementsEqual(text.utf8) }) { return exact }
        if fitting.count > 1 {
            let names = fitting.map(\.description).sorted().joined(separator: " or ")
            throw UpdateFailure(.usage, subject: shown, "\(shown) may be \(names): write the one you mean.")
        }
        if let one = fitting.first ?? ClientName(text) { return one }
        do throws(SemanticVersionError) {
            return .installed(.archive(try SemanticVersion(parsingArgument: text)))
        } catch {
            throw UpdateFailure(
                .usage, subject: shown, "\(shown) is no client here: \(error). Run `clientctl list` for the names.")
        }
    }

    /// Whether `name` may be what is meant.
    package func fits(_ name: ClientName) -> Bool {
        let texts = [name.description, name.shortDescription]
        return texts.contains { $0.utf8.elementsEqual(text.utf8) }
    }

    private var shown: String { UntrustedName.display(text) }
}
