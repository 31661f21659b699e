public import BundleSigning

/// What a client is, whatever channel it came by.
public struct BundleIdentity: Sendable, Equatable {
    /// Its version.
    public let version: ClientVersion
    /// The shells that it is for; nil where its channel does not say.
    public let shells: ShellRange?
    /// What a Meteor bundle says about itself; nil for an archive.
    public let meteor: MeteorFacts?
    /// The seed whose files a Meteor bundle inherits; nil where it owns all of its own.
    public let seed: SHA256Digest?
    /// Ids of the keys that signed a release; empty for a Meteor bundle, and where it was installed before they were kept.
    public let signers: [String]

    /// The channel that it came by.
    public var channel: ChannelName { version.channel }

    /// The identity of a release.
    public init(version: SemanticVersion, shells: ShellRange, signers: [String] = []) {
        self.version = .archive(version)
        self.shells = shells
        meteor = nil
        seed = nil
        self.signers = signers
    }

    /// The identity of a Meteor bundle.
    public init(version: MeteorVersion, facts: MeteorFacts, seed: SHA256Digest?) {
        self.version = .meteor(version)
        shells = nil
        meteor = facts
        self.seed = seed
        signers = []
    }

    /// The name of its serving root.
    var servingName: String { "\(channel)-\(version)" }

    /// Reads what `members` writes.
    init(_ reader: MemberReader) throws {
        guard let channel = try reader.channel("channel") else { throw reader.refusal("channel", "is missing") }
        switch channel {
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

    /// `version`, `channel`, and what the channel needs: `minShellVersion`, `maxShellVersion` and `signers`, or `meteor` and `seed`.
    var members: JSONObject {
        var object: JSONObject = ["version": .string(version.description), "channel": .string(channel.rawValue)]
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
public struct MeteorFacts: Sendable, Equatable {
    /// The version; a seed has one, too.
    public let version: MeteorVersion
    /// The application, from the runtime config.
    public let appId: String?
    /// The server's address, from the runtime config.
    public let rootURL: String?
    /// The compatibility version for the device's platform, from the manifest.
    public let compatibility: String?

    /// States the facts.
    public init(version: MeteorVersion, appId: String?, rootURL: String?, compatibility: String?) {
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
