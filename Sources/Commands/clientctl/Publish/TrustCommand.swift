import BundleFormats
import ArgumentParser
import BundleCore
import BundleValues
import BundleDisk
import BundlePublish
import BundleSigning

struct TrustCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trust",
        abstract: "Create and change trust roots, which list the keys that devices trust.",
        discussion: """
            A trust root lists root keys, which sign the next root, and release keys,
            which sign releases. It can also list channel keys and guard keys, and sets
            how many keys of each role must sign. Devices start with the root that --trust
            names and follow FEED/trust/N.json from there. An edit creates a draft of the
            next version. The draft is valid when enough root keys of both versions have
            signed it.

            Examples:
              clientctl trust init --out trust.json --app-id com.example.kiosk \\
                --root-key root1.pub.pem --root-key root2.pub.pem \\
                --root-key root3.pub.pem --root-threshold 2 \\
                --release-key release.pub.pem --channel-key channel.pub.pem
              clientctl trust sign trust.json --key root1.key.pem
              clientctl trust sign trust.json --key root2.key.pem
              clientctl trust publish trust.json --feed feed
            """,
        subcommands: [
            TrustInit.self, TrustShow.self, TrustAddKey.self, TrustRemoveKey.self, TrustRotate.self, TrustLabel.self,
            TrustRenew.self, TrustSign.self, TrustPublish.self, TrustUpdateFile.self,
        ])
}

struct TrustInit: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Create the first trust root. Never overwrites a file.",
        discussion: """
            Keep the root keys offline and in different places. A threshold of two of
            three keys works well. Without channel keys, release keys also sign channels.

            Examples:
              clientctl trust init --out trust.json --app-id com.example.kiosk \\
                --root-key root1.pub.pem --root-key root2.pub.pem \\
                --root-key root3.pub.pem --root-threshold 2 \\
                --release-key release.pub.pem --channel-key channel.pub.pem \\
                --sign-key root1.key.pem --sign-key root2.key.pem
            """)

    @Option(help: ArgumentHelp("(required) The trust root file to create.", valueName: "file"), completion: .file())
    var out: String?

    @Option(help: .appId) var appId: String?

    @Option(
        help: ArgumentHelp("(required) Public key that signs trust roots. Repeatable.", valueName: "file"),
        completion: .file())
    var rootKey: [String] = []

    @Option(help: ArgumentHelp("Number of root keys that must sign (default: 1).", valueName: "n"))
    var rootThreshold: String?

    @Option(
        help: ArgumentHelp("(required) Public key that signs releases. Repeatable.", valueName: "file"),
        completion: .file())
    var releaseKey: [String] = []

    @Option(help: ArgumentHelp("Number of release keys that must sign (default: 1).", valueName: "n"))
    var releaseThreshold: String?

    @Option(help: ArgumentHelp("Public key that signs channels. Repeatable.", valueName: "file"), completion: .file())
    var channelKey: [String] = []

    @Option(help: ArgumentHelp("Number of channel keys that must sign (default: 1).", valueName: "n"))
    var channelThreshold: String?

    @Option(
        help: ArgumentHelp("Public key of a guard, which can only pause releases. Repeatable.", valueName: "file"),
        completion: .file())
    var guardKey: [String] = []

    @Option(help: ArgumentHelp("Number of guard keys that must sign (default: 1).", valueName: "n"))
    var guardThreshold: String?

    @Option(
        help: ArgumentHelp(
            "Public key that signs releases with programs (`publish --program`). Repeatable.", valueName: "file"),
        completion: .file())
    var programKey: [String] = []

    @Option(help: ArgumentHelp("Number of program keys that must sign (default: 1).", valueName: "n"))
    var programThreshold: String?

    @Option(
        help: ArgumentHelp("Private root key that signs the new root at once. Repeatable.", valueName: "file"),
        completion: .file())
    var signKey: [String] = []

    @OptionGroup(title: "Signing") var passphrase: PassphraseOptions
    @OptionGroup var lifetime: TrustLifetime
    @OptionGroup var common: CommonOptions

    func run() throws {
        let out = try FlagValue.required(out, of: "out")
        let issued = Timestamp.now
        var root = TrustRoot(version: 1, appId: appId, issued: issued, expires: issued, keys: [], roles: [:])
        if let appId = root.appId, !AppId.isReverseDNS(appId) { throw ValidationError(AppId.usage) }
        try add("root", paths: rootKey, threshold: rootThreshold, as: .root, to: &root)
        try add("release", paths: releaseKey, threshold: releaseThreshold, as: .release, to: &root)
        try add("channel", paths: channelKey, threshold: channelThreshold, as: .channel, to: &root)
        try add("guard", paths: guardKey, threshold: guardThreshold, as: .guard, to: &root)
        try add("program", paths: programKey, threshold: programThreshold, as: .program, to: &root)
        for role in [TrustRole.root, .release] where root.roles[role] == nil {
            throw ValidationError("Missing --\(role)-key: give at least one public key for the role \(role).")
        }
        var file = try TrustFile.first(root, lifetime: try lifetime.duration() ?? TrustFile.standardLifetime)
        for path in signKey {
            _ = try file.sign(try KeyFile.signer(at: path) { try passphrase.require(for: path) })
        }
        try file.write(to: out, replacing: false)
        if file.claims.roles[.root]?.threshold == 1 {
            Output.warn(
                "one root key alone can replace every other key: use three with --root-threshold 2, and keep "
                    + "them offline and in different places")
        }
        for key in file.claims.keys.map(\.publicKey.id) where file.claims.roles(of: key).contains(.root) {
            let others = file.claims.roles(of: key).filter { $0 != .root }
            if others.isEmpty { continue }
            Output.warn(
                "root key \(key) also has the role \(others.map(\.rawValue).joined(separator: " and ")), so the machine that "
                    + "uses it for that role could replace every key. Give that role another key.")
        }
        try TrustView.answer(file, at: out, outcome: "created", changes: [], json: common.json)
    }

    private func add(
        _ name: String, paths: [String], threshold: String?, as role: TrustRole, to root: inout TrustRoot
    ) throws {
        let threshold = try FlagValue.integer(threshold, of: "\(name)-threshold", atLeast: 1)
        for path in paths {
            let key = try KeyFile.publicKey(at: path)
            _ = try TrustEdit.add(key, to: role, threshold: threshold, notAfter: nil).apply(to: &root)
        }
    }
}

/// The lifetime of a trust root.
struct TrustLifetime: ParsableArguments {
    @Option(help: ArgumentHelp("Lifetime of the trust root (default: 365d).", valueName: "duration"))
    var expiresIn: String?

    func duration() throws -> Duration? {
        try PublishTime.duration(expiresIn, of: "expires-in")
    }
}

struct TrustShow: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show the roles, keys and signatures of a trust root or a draft.",
        discussion: """
            Example:
              clientctl trust show trust.json
            """)

    @Argument(help: "The trust root.", completion: .file())
    var file: String

    @OptionGroup var common: CommonOptions

    func run() throws {
        let root = try TrustFile.read(file)
        Output.give(json: common.json, TrustView.object(root), lines: TrustView.lines(root, now: .now))
    }
}

struct TrustSign: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sign",
        abstract: "Add one signature to a trust root.",
        discussion: """
            Examples:
              clientctl trust sign trust.json --key root1.key.pem
              clientctl trust sign next.json --key root1.key.pem --previous trust.json
              clientctl trust sign trust.json --sign-public-key root2.pub.pem \\
                --sign-command 'pkcs11-tool -s -m SHA256-RSA-PKCS-PSS --id 02'
            """)

    @Argument(help: "The trust root, or a draft.", completion: .file())
    var file: String

    @Option(
        help: ArgumentHelp("(required, or --sign-command) The private key (PEM).", valueName: "file"),
        completion: .file())
    var key: String?

    @Option(help: .signCommand) var signCommand: String?

    @Option(help: .signPublicKey, completion: .file()) var signPublicKey: String?

    @Option(
        help: ArgumentHelp(
            "The previous trust root. Its root keys must also sign, so show how many have signed.", valueName: "file"),
        completion: .file())
    var previous: String?

    @OptionGroup(title: "Signing") var passphrase: PassphraseOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let previous = try previous.map { try TrustFile.read($0) }
        let signers = try Signers.read(
            Signers.Flags(key: "key", command: "sign-command", publicKey: "sign-public-key"),
            keys: key.map { [$0] } ?? [], commands: signCommand.map { [$0] } ?? [],
            publicKeys: signPublicKey.map { [$0] } ?? [], passphrase: passphrase)
        guard let signer = signers.first else { throw MissingFlag(flags: ["key", "sign-command"]) }
        guard signers.count == 1 else {
            throw ValidationError(
                "Give either --key, or --sign-command with --sign-public-key. Each run adds one signature.")
        }
        var root = try TrustFile.read(file)
        let id = signer.publicKey.id
        let isRootKey = root.claims.trusted(for: .root, at: nil).keys.contains(signer.publicKey)
        if !isRootKey, root.claims.version == 1 {
            throw UpdateFailure(
                .keyUnknown, subject: id,
                "\(id) is not a root key of this first trust root, so its signature would never be valid. Sign with a root key that "
                    + "`clientctl trust show \(file)` lists.")
        }
        _ = try previous.map { try root.count(byPrevious: $0) }
        let isNew = try root.sign(signer)
        if isNew { try root.write(to: file, replacing: true) }
        if !isRootKey, previous?.claims.trusted(for: .root, at: nil).keys.contains(signer.publicKey) != true {
            Output.warn(
                "\(id) is not a root key of version \(root.claims.version): its signature is valid only if it is a root "
                    + "key of version \(root.claims.version - 1)")
        }
        try TrustView.answer(
            root, at: file, outcome: isNew ? "signed" : "unchanged", changes: ["signed by \(id)"],
            previous: try previous.map { try root.count(byPrevious: $0) }, json: common.json)
    }
}
