import ArchiveSource
import ArgumentParser
import BundleValues
import BundlePublish
import BundleSigning

/// The flags that all edits of a trust root share.
struct TrustEditOptions: ParsableArguments {
    @Argument(help: "The trust root, or a draft.", completion: .file())
    var file: String

    @Option(help: ArgumentHelp("Write the draft to this file (default: FILE).", valueName: "file"), completion: .file())
    var out: String?

    @Flag(help: "Allow an issue time before that of the previous root. Devices then set their time back to it.")
    var acceptClock = false

    @OptionGroup var lifetime: TrustLifetime
    @OptionGroup var common: CommonOptions

    func apply(_ edit: (Settings) throws -> TrustEdit) throws {
        let settings = try common.settings()
        let edit = try edit(settings)
        let before = try TrustFile.read(file)
        let (draft, changes) = try before.editing(
            edit, issued: try issued(settings), lifetime: try lifetime.duration(settings))
        try finish(draft, changes, settings)
    }

    func issued(_ settings: Settings) throws -> DraftTime {
        DraftTime(.now, isChecked: try settings.isOn("accept-clock", acceptClock))
    }

    /// Writes the draft if it has changes or `--out` names a file for it, and prints the result.
    func finish(_ draft: TrustFile, _ changes: [String], _ settings: Settings) throws {
        let out = try settings.optional("out", out)
        if !changes.isEmpty || out != nil { try draft.write(to: out ?? file, replacing: out == nil) }
        try TrustView.answer(
            draft, out ?? file, outcome: changes.isEmpty ? "unchanged" : "drafted", changes,
            json: try settings.isOn("json", common.json))
    }

    /// Returns `text` if it is a key id, otherwise the id of the public key in the file at `text`.
    static func id(_ text: String) throws -> String {
        let isId = (try? SHA256Digest(parsingHex: text)) != nil
        return isId ? text : try KeyFile.publicKey(at: text).id
    }

    static func threshold(_ given: String?, _ settings: Settings) throws -> Int? {
        try settings.optional("threshold", given).map { try settings.integer("threshold", $0, atLeast: 1) }
    }
}

struct TrustAddKey: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add-key",
        abstract: "Add a key to a role, in a draft of the next version.",
        discussion: """
            Example:
              clientctl trust add-key trust.json --role release \\
                --public-key release2.pub.pem --out next.json
            """)

    @OptionGroup var edit: TrustEditOptions

    @Option(
        help: ArgumentHelp("(required) The role: root, release, channel or guard.", valueName: "role"),
        completion: .list(TrustRole.allCases.map(\.rawValue)))
    var role: String?

    @Option(help: ArgumentHelp("(required) The public key (PEM).", valueName: "file"), completion: .file())
    var publicKey: String?

    @Option(
        help: ArgumentHelp(
            "Number of keys of the role that must sign (default: unchanged; 1 for a new role).", valueName: "n"))
    var threshold: String?

    @Option(
        help: ArgumentHelp(
            "Time when the key stops being valid, such as 2030-01-01T00:00:00Z (default: never).", valueName: "time"))
    var notAfter: String?

    func run() throws {
        try edit.apply { settings in
            let name = try settings.required("role", role)
            guard let role = TrustRole(rawValue: name) else {
                throw ValidationError(
                    "--role takes root, release, channel or guard, not \(UntrustedName.display(name)).")
            }
            return .add(
                try KeyFile.publicKey(at: try settings.required("public-key", publicKey)), to: role,
                threshold: try TrustEditOptions.threshold(threshold, settings),
                notAfter: try settings.optional("not-after", notAfter).map { text in
                    try settings.parsed("not-after", text) { try Timestamp(parsing: $0) }
                })
        }
    }
}

struct TrustRemoveKey: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove-key",
        abstract: "Remove a key from a role, or from all roles.",
        discussion: """
            With --revoke, devices also refuse everything that the key has signed.

            Examples:
              clientctl trust remove-key trust.json --role release \\
                --public-key release1.pub.pem
              clientctl trust remove-key trust.json --role all --revoke \\
                --key-id 0f4b… --threshold 1
            """)

    @OptionGroup var edit: TrustEditOptions

    @Option(
        help: ArgumentHelp("(required) The role: root, release, channel, guard or all.", valueName: "role"),
        completion: .list(TrustRole.allCases.map(\.rawValue) + ["all"]))
    var role: String?

    @Option(help: ArgumentHelp("(required, or --public-key) The id of the key: 64 hex digits.", valueName: "id"))
    var keyId: String?

    @Option(help: ArgumentHelp("The public key (PEM), instead of --key-id.", valueName: "file"), completion: .file())
    var publicKey: String?

    @Flag(help: "Revoke the key: devices refuse everything that it has signed. Only with --role all.")
    var revoke = false

    @Option(help: ArgumentHelp("Number of keys of the role that must sign (default: unchanged).", valueName: "n"))
    var threshold: String?

    func run() throws {
        try edit.apply { settings in
            let name = try settings.required("role", role)
            let role = TrustRole(rawValue: name)
            if role == nil && name != "all" {
                throw ValidationError(
                    "--role takes root, release, channel, guard or all, not \(UntrustedName.display(name)).")
            }
            let revokes = try settings.isOn("revoke", revoke)
            if revokes && role != nil {
                throw ValidationError("--revoke removes the key from every role. Give --role all.")
            }
            let id =
                switch (try settings.optional("key-id", keyId), try settings.optional("public-key", publicKey)) {
                case (let id?, nil): id
                case (nil, let path?): try KeyFile.publicKey(at: path).id
                default: throw ValidationError("Give the key with either --key-id or --public-key.")
                }
            return .remove(
                id, from: role, revoked: revokes, threshold: try TrustEditOptions.threshold(threshold, settings))
        }
    }
}

struct TrustRotate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Replace an old key with a new one in every role.",
        discussion: """
            Example:
              clientctl trust rotate trust.json --old release.pub.pem \\
                --new release2.pub.pem --revoke
            """)

    @OptionGroup var edit: TrustEditOptions

    @Option(
        help: ArgumentHelp("(required) The key to replace: its id, or its public key (PEM).", valueName: "id|file"),
        completion: .file())
    var old: String?

    @Option(help: ArgumentHelp("(required) The new public key (PEM).", valueName: "file"), completion: .file())
    var new: String?

    @Flag(help: "Revoke the old key: devices refuse everything that it has signed.")
    var revoke = false

    func run() throws {
        try edit.apply { settings in
            .replace(
                try TrustEditOptions.id(try settings.required("old", old)),
                by: try KeyFile.publicKey(at: try settings.required("new", new)),
                revoked: try settings.isOn("revoke", revoke))
        }
    }
}

struct TrustRenew: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "renew",
        abstract: "Create a draft of the next version with the same keys and a later expiry.",
        discussion: """
            Example:
              clientctl trust renew trust.json --expires-in 365d
            """)

    @OptionGroup var edit: TrustEditOptions

    func run() throws {
        let settings = try edit.common.settings()
        let draft = try TrustFile.read(edit.file).renewing(
            issued: try edit.issued(settings), lifetime: try edit.lifetime.duration(settings))
        try edit.finish(draft, ["renewed"], settings)
    }
}
