import ArgumentParser
import BundleDisk
import BundlePublish
import BundleSigning
import BundleValues
import CLibrary

struct Initialize: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Write the project file clientctl.json, and create a key if there is none.",
        discussion: """
            The commands that publish then read their flags from clientctl.json in the
            working folder. Relative paths in it start at its folder. Each key is a flag,
            so you can add others, such as "exclude" or "drop".

            The command asks for what no flag states. With --yes, it asks nothing and uses
            the defaults.

            A repository can contain such a file, so a found one sets only harmless flags
            and paths in its folder. Programs, secrets, addresses and other paths need
            your consent to the file as it is: --accept stores it on this machine, until
            the file changes. A file that this command writes is accepted.

            Examples:
              clientctl init
              clientctl init --yes --app-id com.example.kiosk --feed s3://bucket/kiosk
            """)

    @Option(help: ArgumentHelp("The application, such as com.example.kiosk. (default: none)", valueName: "id"))
    var appId: String?

    @Option(
        help: ArgumentHelp("The feed: \(LocationAddress.forms). (default: feed)", valueName: "place"),
        completion: .directory)
    var feed: String?

    @Option(help: ArgumentHelp("The channel, or none for a feed without one. (default: stable)", valueName: "name"))
    var channel: String?

    @Option(
        help: ArgumentHelp(
            "The private key, PREFIX.key.pem; it is created if it does not exist. (default: release.key.pem)",
            valueName: "file"), completion: .file())
    var key: String?

    @OptionGroup var passphrase: PassphraseOptions

    @Flag(help: "Accept all that the project file in the working folder sets, and write nothing into it.")
    var accept = false

    @Flag(help: "Ask nothing, and use the defaults.")
    var yes = false

    @OptionGroup var common: CommonOptions

    func run() throws {
        if accept { return try acceptFile() }
        if File.exists(ProjectFile.name) {
            throw UpdateFailure(
                .configInvalid, subject: ProjectFile.name,
                "\(ProjectFile.name) already exists. Edit it, or remove it and run the command again.")
        }
        let answers = try Answers(asks: !yes)
        let project = Project(
            appId: try answers.value(appId, question: "Application, such as com.example.kiosk", usual: "none") {
                if !AppId.isReverseDNS($0) { throw ValidationError(AppId.usage) }
            }, feed: try answers.value(feed, question: "Feed, \(LocationAddress.forms)", usual: "feed"),
            channel: try answers.value(channel, question: "Channel", usual: "stable", check: ChannelView.requireName),
            key: try answers.value(key, question: "Private key", usual: "release.key.pem", check: Project.requireKey))
        try project.require()
        let isNew = !File.exists(project.key)
        let secret = try isNew ? passphrase.read() ?? answers.passphrase(for: project.key) : nil
        let publicKey = try isNew ? project.createKey(secret) : nil
        if !isNew { try project.completeKey { try passphrase.require(for: project.key) } }
        let content = JSONWriter.bytes(of: .object(project.object), layout: .pretty)
        try File.write(content, to: ProjectFile.name, mode: 0o644)
        do {
            if project.needsConsent { try Self.storeConsent(to: content) }
        } catch {
            Output.warn("it is not recorded that this file is yours. \(UpdateFailure(error).message)")
        }
        if isNew, secret == nil {
            Output.warn("the key \(project.key) is not encrypted: `clientctl keys passwd` encrypts it")
        }
        let next = project.next
        Output.give(
            json: common.json, afterChange: true,
            [
                "outcome": .string("created"), "file": .string(ProjectFile.name), "key": .string(project.key),
                "keyCreated": .bool(isNew), "next": .array(next.map(JSONValue.string)),
            ],
            lines: ["wrote \(ProjectFile.name)"]
                + (publicKey.map { ["created \(project.key), keep it secret, and \($0) for --trust"] }
                    ?? ["uses the existing \(project.key)"])
                + ["Next, with your built folder:"] + next.map { "  \($0)" })
    }

    /// Accepts the project file, and prints what it sets.
    private func acceptFile() throws {
        let flags = ["app-id", "feed", "channel", "key", "passphrase-file", "yes"].filter(CommandLineFlags.contain)
        if let flag = flags.first {
            throw ValidationError("--accept writes nothing into the file: leave --\(flag) out.")
        }
        let (bytes, members) = try Settings.project()
        try Self.storeConsent(to: bytes)
        Output.give(
            json: common.json, afterChange: true,
            [
                "outcome": .string("accepted"), "file": .string(ProjectFile.name), "accepted": .object(members),
            ],
            lines: ["accepted \(ProjectFile.name), until it changes:"]
                + members.members.map {
                    "  \($0.name): \(String(decoding: JSONWriter.bytes(of: $0.value), as: UTF8.self))"
                })
    }

    private static func storeConsent(to bytes: [UInt8]) throws {
        guard let consent = ProjectConsent(to: bytes) else {
            throw UpdateFailure(
                .configInvalid, subject: "XDG_STATE_HOME",
                "No folder can store that \(ProjectFile.name) is accepted: set XDG_STATE_HOME or HOME, or name the file with --config."
            )
        }
        try consent.give()
    }
}

/// The values of `init`: from flags, from the environment, or from the user at the terminal.
private struct Answers {
    private let asks: Bool

    /// Throws `ValidationError` if the user has to answer and this process has no terminal.
    init(asks: Bool) throws {
        if asks, isatty(0) != 1 {
            throw ValidationError("This process has no terminal to ask at: give --yes, and flags for other values.")
        }
        self.asks = asks
    }

    /// Returns `given`, or the answer to `question`; `usual` without either. Returns nil for `none`.
    /// Throws the error of `check` for a value that it rejects.
    func value(
        _ given: String?, question: String, usual: String, check: (String) throws -> Void = { _ in }
    ) throws -> String? {
        var value = given
        if value == nil, asks {
            guard let line = Terminal()?.ask("\(question) [\(usual)]: ", isSecret: false) else {
                throw ValidationError("The input ended before the answers. Run the command again, or give --yes.")
            }
            value = line.isEmpty ? nil : String(decoding: line, as: UTF8.self)
        }
        let chosen = value ?? usual
        if chosen == "none" { return nil }
        try check(chosen)
        return chosen
    }

    /// Returns the passphrase for the new key at `path`; nil if the user wants none, or is not asked.
    func passphrase(for path: String) throws -> [UInt8]? {
        guard asks else { return nil }
        let missing = "The new key needs an answer"
        let first = try Passphrase.ask("Passphrase for \(path), empty for none: ", missing: missing)
        if first.isEmpty { return nil }
        guard try Passphrase.ask("Repeat the passphrase: ", missing: missing) == first else {
            throw UpdateFailure(
                .configInvalid, subject: "passphrase", "The two passphrases differ. Run the command again.")
        }
        return first
    }
}

/// The content of a project file.
private struct Project {
    let appId: String?
    let feed: String
    let channel: String?
    let key: String

    private static let keySuffix = ".key.pem"

    init(appId: String?, feed: String?, channel: String?, key: String?) {
        (self.appId, self.channel) = (appId, channel)
        (self.feed, self.key) = (feed ?? "", key ?? "")
    }

    private var keyPrefix: String { String(key.dropLast(Self.keySuffix.count)) }

    /// Throws `ValidationError` if the feed or the key is `none`.
    func require() throws {
        if feed.isEmpty { throw ValidationError("--feed takes a folder or s3://bucket/prefix.") }
        try Self.requireKey(key)
    }

    /// Throws `ValidationError` if `key` is neither an existing file nor a name for a new one.
    static func requireKey(_ key: String) throws {
        guard File.exists(key) || key.hasSuffix(keySuffix) && key.count > keySuffix.count else {
            throw ValidationError("--key takes an existing private key, or a new one such as release.key.pem.")
        }
    }

    /// Writes the public half of an existing key if it is missing, such as after an interrupted run.
    func completeKey(_ passphrase: () throws -> [UInt8]) throws {
        let publicPath = "\(keyPrefix).pub.pem"
        if !key.hasSuffix(Self.keySuffix) || File.exists(publicPath) { return }
        try KeyFile.writePublicHalf(of: key, to: publicPath, passphrase: passphrase)
    }

    /// Creates the key. Returns the path of its public half.
    func createKey(_ passphrase: [UInt8]?) throws -> String {
        try KeyFile.generate(.ed25519, prefix: keyPrefix, passphrase: passphrase).publicPath
    }

    var object: JSONObject {
        var object: JSONObject = [:]
        object["app-id"] = appId.map(JSONValue.string)
        object["feed"] = .string(feed)
        object["key"] = .string(key)
        object["channel"] = channel.map(JSONValue.string)
        // `publish` signs the channel with the key of the release, and `release` needs its own flag.
        object["channel-key"] = channel.map { _ in .string(key) }
        return object
    }

    /// Whether the file sets a flag that needs the user's consent, such as a feed outside of its folder.
    var needsConsent: Bool {
        object.members.contains { ProjectRule.judge($0.name, [$0.value.stringValue ?? ""]) != .allowed }
    }

    /// The commands that publish a first release, and install and show it.
    var next: [String] {
        let trust = key.hasSuffix(Self.keySuffix) ? "\(keyPrefix).pub.pem" : "release.pub.pem"
        // Devices read a bucket by its public address, which the project file does not have.
        let address = feed.contains("://") ? "https://YOUR-ADDRESS" : feed
        let source = channel.map { "--channel \(address)/channels/\($0).json" } ?? "--manifest \(address)/manifest.json"
        return [
            "clientctl publish dist --version 1.0.0",
            "clientctl serve \(source) --trust \(trust) --store store",
        ]
    }
}
