package import BundleValues
package import BundleSigning

/// What a client is, whatever source it came by.
package struct BundleIdentity: Sendable, Equatable {
    /// Its version.
    package let version: ClientVersion
    /// The shells that it is for; nil where its source does not say.
    package let shells: ShellRange?
    /// What a Meteor bundle says about itself; nil for an archive.
    package let meteor: MeteorFacts?
    /// The seed whose files a Meteor bundle inherits; nil where it owns all of its own.
    package let seed: SHA256Digest?
    /// Ids of the keys that signed a release; empty for a Meteor bundle, and where it was installed before they were kept.
    package let signers: [String]

    /// The source that it came by.
    package var source: SourceName { version.source }

    /// The identity of a release.
    package init(version: SemanticVersion, shells: ShellRange, signers: [String] = []) {
        self.version = .archive(version)
        self.shells = shells
        meteor = nil
        seed = nil
        self.signers = signers
    }

    /// The identity of a Meteor bundle.
    package init(version: MeteorVersion, facts: MeteorFacts, seed: SHA256Digest?) {
        self.version = .meteor(version)
        shells = nil
        meteor = facts
        self.seed = seed
        signers = []
    }

    /// The name of its serving root.
    var servingName: String { "\(source)-\(version)" }

    /// Reads what `members` writes.
    init(_ reader: MemberReader) throws {
        guard let source = try reader.source("source") else { throw reader.refusal("source", "is missing") }
        switch source {
        case .archive:
            let version = try reader.version("version")
            let minimum = try reader.version("minShellVersion")
            let maximum = try reader.optionalVersion("maxShellVersion")
            let shells: ShellRange
            do {
                shells = try ShellRange(minimum: minimum, maximum: maximum)
            } catch {
                throw reader.refusal("maxShellVersion", "is refused: \(error)")
            }
            self.init(version: version, shells: shells, signers: try reader.strings("signers"))
        case .meteor:
            let text = try reader.string("version")
            guard let version = try? MeteorVersion(parsing: text) else {
                throw reader.refusal("version", "is refused: \(UntrustedName.display(text))")
            }
            guard let facts = try reader.optionalObject("meteor") else { throw reader.refusal("meteor", "is missing") }
            self.init(
                version: version, facts: try MeteorFacts(facts),
                seed: try reader.optionalDigest("seed"))
        }
    }

    /// `version`, `source`, and what the source needs: `minShellVersion`, `maxShellVersion` and `signers`, or `meteor` and `seed`.
    var members: JSONObject {
        var object: JSONObject = ["version": .string(version.description), "source": .string(source.rawValue)]
        if let shells {
            object["minShellVersion"] = .string(shells.minimum.description)
            object["maxShellVersion"] = .string(orNull: shells.maximum?.description)
            object["signers"] = .array(signers.map(JSONValue.string))
        }
        if let meteor {
            object["meteor"] = .object(meteor.members)
            object["seed"] = .string(orNull: seed?.hex)
        }
        return object
    }
}

/// What a Meteor bundle says about itself in its page and its manifest (METEOR section 4.1). The facts of the bundle that runs
/// decide about the next one.
package struct MeteorFacts: Sendable, Equatable {
    /// The version; a seed has one, too.
    package let version: MeteorVersion
    /// The application, from the runtime config.
    package let appId: String?
    /// The server's address, from the runtime config.
    package let rootURL: String?
    /// The compatibility version for the device's platform, from the manifest.
    package let compatibility: String?

    /// States the facts.
    package init(version: MeteorVersion, appId: String?, rootURL: String?, compatibility: String?) {
        self.version = version
        self.appId = appId
        self.rootURL = rootURL
        self.compatibility = compatibility
    }

    init(_ reader: MemberReader) throws {
        let text = try reader.string("version")
        guard let version = try? MeteorVersion(parsing: text) else {
            throw reader.refusal("version", "is refused: \(UntrustedName.display(text))")
        }
        self.init(
            version: version, appId: try reader.optionalString("appId"), rootURL: try reader.optionalString("rootURL"),
            compatibility: try reader.optionalString("compatibility"))
    }

    var members: JSONObject {
        [
            "version": .string(version.description), "appId": .string(orNull: appId),
            "rootURL": .string(orNull: rootURL), "compatibility": .string(orNull: compatibility),
        ]
    }
}
