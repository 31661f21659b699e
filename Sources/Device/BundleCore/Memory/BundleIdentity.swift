package import BundleValues
package import BundleSigning

/// The identity of a client of any source.
package struct BundleIdentity: Sendable, Equatable {
    package let version: ClientVersion
    /// The shells that can run the client; nil if its source does not limit them.
    package let shells: ShellRange?
    /// The facts of a Meteor bundle; nil for an archive.
    package let meteor: MeteorFacts?
    /// The seed whose files a Meteor bundle shares; nil if the bundle has all its files.
    package let seed: SHA256Digest?
    /// The ids of the keys that signed a release; empty for a Meteor bundle.
    package let signers: [String]

    package var source: SourceName { version.source }

    /// Creates the identity of a release.
    package init(version: SemanticVersion, shells: ShellRange, signers: [String] = []) {
        self.version = .archive(version)
        self.shells = shells
        meteor = nil
        seed = nil
        self.signers = signers
    }

    /// Creates the identity of a Meteor bundle.
    package init(version: MeteorVersion, facts: MeteorFacts, seed: SHA256Digest?) {
        self.version = .meteor(version)
        shells = nil
        meteor = facts
        self.seed = seed
        signers = []
    }

    /// The name of the client's serving root.
    var servingName: String { "\(source)-\(version)" }

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

    /// `version`, `source`, and the members of the source: `minShellVersion`, `maxShellVersion` and `signers`, or
    /// `meteor` and `seed`.
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

/// The facts in the page and the manifest of a Meteor bundle (METEOR section 4.1). The facts of the running bundle
/// decide whether the next one is accepted.
package struct MeteorFacts: Sendable, Equatable {
    /// The version. A seed has one, too.
    package let version: MeteorVersion
    /// The application, from the runtime config.
    package let appId: String?
    /// The server's address, from the runtime config.
    package let rootURL: String?
    /// The compatibility version of the device's platform, from the manifest.
    package let compatibility: String?

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
