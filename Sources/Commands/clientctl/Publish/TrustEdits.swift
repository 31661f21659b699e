import BundleFormats
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

    func apply(_ edit: TrustEdit) throws {
        let before = try TrustFile.read(file)
        let (draft, changes) = try before.editing(edit, issued: issued, lifetime: try lifetime.duration())
        try finish(draft, changes: changes)
    }

    var issued: DraftTime { DraftTime(.now, isChecked: acceptClock) }

    /// Writes the draft if it has changes or `--out` names a file for it, and prints the result.
    func finish(_ draft: TrustFile, changes: [String]) throws {
        if !changes.isEmpty || out != nil { try draft.write(to: out ?? file, replacing: out == nil) }
        try TrustView.answer(
            draft, at: out ?? file, outcome: changes.isEmpty ? "unchanged" : "drafted", changes: changes,
            json: common.json)
    }

    /// Returns the id of the key that --key-id or --public-key names.
    static func id(_ keyId: String?, publicKey: String?) throws -> String {
        switch (keyId, publicKey) {
        case (let id?, nil): id
        case (nil, let path?): try KeyFile.publicKey(at: path).id
        default: throw ValidationError("Give the key with either --key-id or --public-key.")
        }
    }

    /// Returns `text` if it is a key id, otherwise the id of the public key in the file at `text`.
    static func id(_ text: String) throws -> String {
        let isId = (try? SHA256Digest(parsingHex: text)) != nil
        return isId ? text : try KeyFile.publicKey(at: text).id
    }
}

struct TrustAddKey: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add-key",
        abstract: "Add a key to a role, in a draft of the next version.",
        discussion: """
            Examples:
              clientctl trust add-key trust.json --role release \\
                --public-key release2.pub.pem --out next.json
              clientctl trust add-key trust.json --role channel --threshold 2 \\
                --public-key release2.pub.pem --label "Bob, token 1"
            """)

    @OptionGroup var edit: TrustEditOptions

    @Option(
        help: ArgumentHelp("(required) The role: root, release, channel, guard or program.", valueName: "role"),
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

    @Option(help: .keyLabel) var label: String?

    func run() throws {
        let name = try FlagValue.required(role, of: "role")
        guard let role = TrustRole(rawValue: name) else {
            throw ValidationError(
                "--role takes root, release, channel, guard or program, not \(UntrustedName.display(name)).")
        }
        let key = try KeyFile.publicKey(at: FlagValue.required(publicKey, of: "public-key"))
        let add = TrustEdit.add(
            key, to: role, threshold: try FlagValue.integer(threshold, of: "threshold", atLeast: 1),
            notAfter: try notAfter.map { text in
                try FlagValue.parsed(text, of: "not-after") { try Timestamp(parsing: $0) }
            })
        try edit.apply(.all([add] + (label.map { [.label(key.id, $0)] } ?? [])))
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
        help: ArgumentHelp("(required) The role: root, release, channel, guard, program or all.", valueName: "role"),
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
        let name = try FlagValue.required(role, of: "role")
        let role = TrustRole(rawValue: name)
        if role == nil && name != "all" {
            throw ValidationError(
                "--role takes root, release, channel, guard, program or all, not \(UntrustedName.display(name)).")
        }
        if revoke && role != nil {
            throw ValidationError("--revoke removes the key from every role. Give --role all.")
        }
        try edit.apply(
            .remove(
                try TrustEditOptions.id(keyId, publicKey: publicKey), from: role, revoked: revoke,
                threshold: try FlagValue.integer(threshold, of: "threshold", atLeast: 1)))
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

    @Option(help: .keyLabel) var label: String?

    func run() throws {
        let key = try KeyFile.publicKey(at: FlagValue.required(new, of: "new"))
        let replace = TrustEdit.replace(
            try TrustEditOptions.id(FlagValue.required(old, of: "old")), by: key, revoked: revoke)
        try edit.apply(.all([replace] + (label.map { [.label(key.id, $0)] } ?? [])))
    }
}

struct TrustLabel: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "label",
        abstract: "Set the label of a key, which people see instead of its ID.",
        discussion: """
            A label names the person or the token that has the key. Devices ignore labels.
            `channel log`, `release proposals`, `trust show` and the console show them. An
            empty label removes it.

            Example:
              clientctl trust label trust.json --public-key channel.pub.pem \\
                --label "Alice, token 2"
            """)

    @OptionGroup var edit: TrustEditOptions

    @Option(help: ArgumentHelp("(required, or --public-key) The id of the key: 64 hex digits.", valueName: "id"))
    var keyId: String?

    @Option(help: ArgumentHelp("The public key (PEM), instead of --key-id.", valueName: "file"), completion: .file())
    var publicKey: String?

    @Option(
        help: ArgumentHelp(
            "(required) The label of the key, such as \"Alice, token 2\", at most 64 bytes.", valueName: "text"))
    var label: String?

    func run() throws {
        guard let label else { throw MissingFlag(flags: ["label"]) }
        let id = try TrustEditOptions.id(keyId, publicKey: publicKey)
        try edit.apply(.label(id, label.isEmpty ? nil : label))
    }
}

extension ArgumentHelp {
    fileprivate static let keyLabel = ArgumentHelp(
        "The label of the new key, such as \"Alice, token 2\", at most 64 bytes.", valueName: "text")
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
        let draft = try TrustFile.read(edit.file).renewing(issued: edit.issued, lifetime: try edit.lifetime.duration())
        try edit.finish(draft, changes: ["renewed"])
    }
}
