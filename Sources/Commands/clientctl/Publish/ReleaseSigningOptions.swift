import ArgumentParser
import BundlePublish
import BundleSigning

/// The keys that sign a release and its deltas.
struct ReleaseSigningOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "(required, or --sign-command) The private key (PEM). Repeat it if several keys must sign.",
            valueName: "file"),
        completion: .file())
    var key: [String] = []

    @Option(help: .signCommand) var signCommand: [String] = []
    @Option(help: .signPublicKey, completion: .file()) var signPublicKey: [String] = []

    /// Returns the signers. Throws `MissingFlag` if there are none.
    func signers(_ passphrase: PassphraseOptions) throws -> [Signer] {
        let signers = try Signers.read(
            Signers.Flags(key: "key", command: "sign-command", publicKey: "sign-public-key"), keys: key,
            commands: signCommand, publicKeys: signPublicKey, passphrase: passphrase)
        if signers.isEmpty { throw MissingFlag(flags: ["key", "sign-command"]) }
        return signers
    }
}
