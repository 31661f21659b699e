import ArchiveSource
import ArgumentParser
import BundleCore
import BundleValues
import BundleDisk
import BundlePublish
import BundleSigning

/// `clientctl trust`.
struct Trust: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trust",
        abstract: "Make and change trust roots: which keys devices trust, and how many must sign.",
        discussion: """
            A trust root names root keys, which sign the next root, release keys, which
            sign releases, and perhaps channel keys, which sign channels. Devices are
            given one with --trust and follow FEED/trust/N.json from there. Editing a
            root makes a draft of the next version; it counts when enough root keys of
            both versions have signed it.

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
            TrustInit.self, TrustShow.self, TrustAddKey.self, TrustRemoveKey.self, TrustRotate.self, TrustRenew.self,
            TrustSign.self, TrustPublish.self, TrustUpdateFile.self,
        ])
}

struct TrustInit: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Make the first trust root. Never overwrites.",
        discussion: """
            Keep the root keys offline and apart; two of three is a good number. Without
            channel keys, the release keys sign channels too.

            Examples:
              clientctl trust init --out trust.json --app-id com.example.kiosk \\
                --root-key root1.pub.pem --root-key root2.pub.pem \\
                --root-key root3.pub.pem --root-threshold 2 \\
                --release-key release.pub.pem --channel-key channel.pub.pem \\
                --sign-key root1.key.pem --sign-key root2.key.pem
            """)

    @Option(help: ArgumentHelp("The file to make.", valueName: "file"), completion: .file())
    var out: String?

    @Option(help: ArgumentHelp("The application, such as com.example.kiosk.", valueName: "id"))
    var appId: String?

    @Option(help: ArgumentHelp("Public key that signs trust roots; repeat it.", valueName: "file"), completion: .file())
    var rootKey: [String] = []

    @Option(help: ArgumentHelp("How many root keys must sign; 1 by default.", valueName: "n"))
    var rootThreshold: String?

    @Option(help: ArgumentHelp("Public key that signs releases; repeat it.", valueName: "file"), completion: .file())
    var releaseKey: [String] = []

    @Option(help: ArgumentHelp("How many release keys must sign; 1 by default.", valueName: "n"))
    var releaseThreshold: String?

    @Option(help: ArgumentHelp("Public key that signs channels; repeat it.", valueName: "file"), completion: .file())
    var channelKey: [String] = []

    @Option(help: ArgumentHelp("How many channel keys must sign; 1 by default.", valueName: "n"))
    var channelThreshold: String?

    @Option(
        help: ArgumentHelp("Public key that holds releases, and does no more; repeat it.", valueName: "file"),
        completion: .file())
    var guardKey: [String] = []

    @Option(help: ArgumentHelp("How many guards must sign; 1 by default.", valueName: "n"))
    var guardThreshold: String?

    @Option(
        help: ArgumentHelp("Private root key that signs it now; repeat it.", valueName: "file"), completion: .file())
    var signKey: [String] = []

    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup var lifetime: TrustLifetime
    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let out = try settings.required("out", out)
        let issued = Timestamp.now
        var root = TrustRoot(
            version: 1, appId: try settings.optional("app-id", appId), issued: issued,
            expires: issued, keys: [], roles: [:])
        if let appId = root.appId, !AppId.isReverseDNS(appId) { throw ValidationError(AppId.usage) }
        try add("root", rootKey, rootThreshold, as: .root, to: &root, settings)
        try add("release", releaseKey, releaseThreshold, as: .release, to: &root, settings)
        try add("channel", channelKey, channelThreshold, as: .channel, to: &root, settings)
        try add("guard", guardKey, guardThreshold, as: .guard, to: &root, settings)
        for role in [TrustRole.root, .release] where root.roles[role] == nil {
            throw ValidationError(
                "Missing --\(role)-key: name at least one public key that signs for the role \(role).")
        }
        var file = try TrustFile.first(root, lifetime: try lifetime.duration(settings) ?? TrustFile.standardLifetime)
        for path in try settings.list("sign-key", signKey) {
            _ = try file.sign(try KeyFile.signer(at: path) { try passphrase.require(settings, for: path) })
        }
        try file.write(to: out, replacing: false)
        if file.claims.roles[.root]?.threshold == 1 {
            Output.say(
                "clientctl: one root key alone can replace every other key: better name three with --root-threshold 2, and keep "
                    + "them offline and apart")
        }
        for key in file.claims.keys.map(\.publicKey.id) where file.claims.roles(of: key).contains(.root) {
            let others = file.claims.roles(of: key).filter { $0 != .root }
            if others.isEmpty { continue }
            Output.say(
                "clientctl: root key \(key) also has the role \(others.map(\.rawValue).joined(separator: " and ")): a machine that signs "
                    + "releases could replace every key. Give that role a key of its own.")
        }
        try TrustView.answer(file, out, outcome: "made", [], json: try settings.isOn("json", common.json))
    }

    private func add(
        _ name: String, _ paths: [String], _ threshold: String?, as role: TrustRole, to root: inout TrustRoot,
        _ settings: Settings
    ) throws {
        let threshold = try settings.optional("\(name)-threshold", threshold).map {
            try settings.integer("\(name)-threshold", $0, atLeast: 1)
        }
        for path in try settings.list("\(name)-key", paths) {
            let key = try KeyFile.publicKey(at: path)
            _ = try TrustEdit.add(key, to: role, threshold: threshold, notAfter: nil).apply(to: &root)
        }
    }
}

/// How long a trust root counts.
struct TrustLifetime: ParsableArguments {
    @Option(help: ArgumentHelp("How long it counts; 365d by default.", valueName: "duration"))
    var expiresIn: String?

    func duration(_ settings: Settings) throws -> Duration? {
        try PublishTime.duration("expires-in", expiresIn, settings)
    }
}

struct TrustShow: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show a trust root or a draft: roles, keys, signatures, and whether they are enough.",
        discussion: """
            Example:
              clientctl trust show trust.json
            """)

    @Argument(help: "The trust root.", completion: .file())
    var file: String

    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let root = try TrustFile.read(file)
        Output.give(
            json: try settings.isOn("json", common.json), TrustView.object(root), TrustView.lines(root, now: .now))
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
              clientctl trust sign trust.json --public root2.pub.pem \\
                --sign-command 'pkcs11-tool --sign --mechanism EDDSA --id 02'
            """)

    @Argument(help: "The trust root, or a draft of one.", completion: .file())
    var file: String

    @Option(help: ArgumentHelp("The private key (PEM).", valueName: "file"), completion: .file())
    var key: String?

    @Option(
        help: ArgumentHelp(
            "Command that signs in place of a key file: message on stdin, raw signature on stdout.",
            valueName: "command"))
    var signCommand: String?

    @Option(help: ArgumentHelp("Public key (PEM) of --sign-command.", valueName: "file"), completion: .file())
    var `public`: String?

    @Option(
        help: ArgumentHelp(
            "The trust root of the version before, whose root keys must sign, too: count them.", valueName: "file"),
        completion: .file())
    var previous: String?

    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let previous = try settings.optional("previous", previous).map { try TrustFile.read($0) }
        let signers = try Signers.read(
            Signers.Flags(key: "key", command: "sign-command", publicKey: "public"), keys: key.map { [$0] } ?? [],
            commands: signCommand.map { [$0] } ?? [], publicKeys: `public`.map { [$0] } ?? [], passphrase, settings)
        guard let signer = signers.first, signers.count == 1 else {
            throw ValidationError("Give --key, or --sign-command with --public, one of them: each adds one signature.")
        }
        var root = try TrustFile.read(file)
        let id = signer.publicKey.id
        let isRootKey = root.claims.trusted(for: .root, at: nil).keys.contains(signer.publicKey)
        if !isRootKey, root.claims.version == 1 {
            throw UpdateFailure(
                .keyUnknown, subject: id,
                "\(id) is not a root key of this first trust root, so its signature would never count. Sign with one of its root keys "
                    + "(`clientctl trust show \(file)`).")
        }
        _ = try previous.map { try root.count(byPrevious: $0) }
        let isNew = try root.sign(signer)
        if isNew { try root.write(to: file, replacing: true) }
        if !isRootKey, previous?.claims.trusted(for: .root, at: nil).keys.contains(signer.publicKey) != true {
            Output.say(
                "clientctl: \(id) is not a root key of version \(root.claims.version): its signature is valid only if it was one of "
                    + "version \(root.claims.version - 1)")
        }
        try TrustView.answer(
            root, file, outcome: isNew ? "signed" : "unchanged", ["signed by \(id)"],
            previous: try previous.map { try root.count(byPrevious: $0) }, json: try settings.isOn("json", common.json))
    }
}

struct TrustPublish: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish",
        abstract: "Publish the next trust root in a feed.",
        discussion: """
            The feed's whole chain is checked first. FEED/trust.json is the newest, for
            whoever pins one.

            Example:
              clientctl trust publish trust.json --feed feed
            """)

    @Argument(help: "The trust root.", completion: .file())
    var file: String

    @Option(
        help: ArgumentHelp(
            "The feed: a folder, created where it is missing, or s3://bucket/prefix.", valueName: "place"),
        completion: .directory)
    var feed: String?

    @Flag(help: "The clock is right, though it is long after the feed's channels expired.")
    var clockChecked = false

    @OptionGroup var after: AfterOptions
    @OptionGroup var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.settings()
        let next = try after.plan(settings)
        let feed = try Wiring.place(feed, bucket, settings)
        let root = try TrustFile.read(file)
        if try feed.isNew { Output.say("clientctl: \(feed.isNewWarning)") }
        let report = try TrustPublisher(
            feed: feed, isClockChecked: try settings.isOn("clock-checked", clockChecked), wait: waiting.wait(settings)
        ).publish(root)
        for name in report.channelsToSign {
            Output.say(
                "clientctl: devices refuse the present document of channel \(name) by this root: sign it with "
                    + "`clientctl release resign --channel \(name)` and the new key, and --trust with the old one")
        }
        Self.warnings(report).forEach { Output.say("clientctl: \($0)") }
        let outcome = report.isNew ? "published" : report.isCompleted ? "completed" : "unchanged"
        try await next.finish(
            Publication(feed: feed, outcome: outcome, documents: report.documents),
            try settings.isOn("json", common.json),
            [
                "outcome": .string(outcome), "version": .integer(report.version), "feed": .string(feed.address),
                "channelsToSign": .array(report.channelsToSign.map(JSONValue.string)),
                "refused": .array(
                    report.refused.map {
                        .object([
                            "document": .string($0.document), "version": .string($0.version.description),
                            "code": .string($0.code.rawValue),
                        ])
                    }),
            ],
            [
                report.isNew
                    ? "published trust root \(report.version) to \(feed.address)"
                    : "trust root \(report.version) was published to \(feed.address) before; "
                        + (report.isCompleted ? "trust.json was missing or behind, and was written" : "nothing changed")
            ])
    }

    /// What is on offer and void now.
    private static func warnings(_ report: TrustPublisher.PublishedRoot) -> [String] {
        report.refused.map { release in
            let place = release.document.hasSuffix(".json") ? release.document : "channel \(release.document)"
            let offer = "\(place) offers \(release.version), which "
            guard release.code == .appMismatch else {
                let keys = report.releaseKeys.joined(separator: " or ")
                return
                    "\(offer)no release key of this trust root has signed: devices refuse it. Publish a new release now, "
                    + "signed with \(keys)."
            }
            let named = release.appId.map { "is for \(UntrustedName.display($0))" } ?? "names no application"
            let advice = release.expected.map { " Publish again with --app-id \($0)." } ?? ""
            return "\(offer)\(named): devices with this trust root refuse it.\(advice)"
        }
    }
}

struct TrustUpdateFile: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "update",
        abstract: "Update FILE to the newest trust root of a feed, step by step.",
        discussion: """
            For whoever builds shells: pin the newest.

            Examples:
              clientctl trust update trust.json --feed https://updates.example.com/
              clientctl trust update trust.json --feed feed
            """)

    @Argument(help: "The trust root to start from.", completion: .file())
    var file: String

    @Option(help: ArgumentHelp("The feed: a URL or a folder.", valueName: "url|dir"), completion: .directory)
    var feed: String?

    @OptionGroup var network: NetworkOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.settings()
        let feed = try settings.required("feed", feed)
        let url = try Wiring.url(feed.hasSuffix("/") ? feed : feed + "/")
        if url.isFile { _ = try Directory.open(feed) }
        guard case .root(let known) = try TrustAnchor.read(at: file) else {
            throw UpdateFailure(
                .configInvalid, subject: file, "\(file) is a public key: name the trust root to follow the chain from.")
        }
        let newest = try await TrustChain.newest(
            after: known, inFeed: url, fetcher: try Wiring.fetcher(network, for: url, settings), now: .now)
        let isNewer = newest.root.version > known.root.version
        if isNewer { try TrustFile.of(try TrustRootFormat.parse(newest.document)).write(to: file, replacing: true) }
        Output.give(
            json: try settings.isOn("json", common.json), afterChange: true,
            [
                "outcome": .string(isNewer ? "updated" : "unchanged"), "version": .integer(newest.root.version),
                "previous": .integer(known.root.version), "file": .string(file),
            ],
            [
                isNewer
                    ? "\(file): trust root \(known.root.version) → \(newest.root.version)"
                    : "\(file): trust root \(known.root.version) is the feed's newest"
            ])
    }
}
