import BundleValues
import ArgumentParser
import BundlePublish
import BundleSigning

struct Keys: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Create, show and encrypt keys.", subcommands: [Generate.self, Show.self, ChangePassphrase.self])

    struct Generate: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "generate",
            abstract: "Create a key pair. Never overwrites a file.",
            discussion: """
                The private key is PREFIX.key.pem (PKCS#8, mode 0600), the public key is
                PREFIX.pub.pem. Without a passphrase, the private key is not encrypted.

                --phone makes an RSA key of 2048 bits for publish --phone-key, and also
                PREFIX.pkcs1.pem, the public key for the configuration of Capgo's plugin.
                Capawesome's plugin reads PREFIX.pub.pem.

                Examples:
                  clientctl keys generate --out release
                  clientctl keys generate --out release --algorithm ecdsa-p256 \\
                    --passphrase-file secret.txt
                  CLIENTCTL_PASSPHRASE=… clientctl keys generate --out release
                  clientctl keys generate --out phone --phone
                """)

        @Option(
            help: ArgumentHelp(
                "(required) Path prefix of the two key files, such as keys/release.", valueName: "prefix"))
        var out: String?

        @Option(
            help: "The algorithm: ed25519, ecdsa-p256 or rsa-pss with 3072 bits (default: ed25519).",
            completion: .list(["ed25519", "ecdsa-p256", "rsa-pss"]))
        var algorithm: String?

        @Flag(help: "Make an RSA key that encrypts the bundles of phones, instead of a key that signs.")
        var phone = false

        @OptionGroup var passphrase: PassphraseOptions

        @Flag(help: "Ask for a passphrase at the terminal, twice.")
        var prompt = false

        @OptionGroup var common: CommonOptions

        func run() throws {
            if phone, algorithm != nil {
                throw ValidationError("--phone makes an RSA key of 2048 bits: leave --algorithm out.")
            }
            let name = algorithm ?? KeyAlgorithm.ed25519.rawValue
            guard let algorithm = KeyAlgorithm(rawValue: name) else {
                throw ValidationError("--algorithm takes ed25519, ecdsa-p256 or rsa-pss.")
            }
            let prefix = try FlagValue.required(out, of: "out")
            if let end = [".key.pem", ".pub.pem"].first(where: prefix.hasSuffix) {
                throw ValidationError(
                    "--out takes the beginning of both names: give \(prefix.dropLast(end.count)), not \(prefix).")
            }
            let secret = try prompt ? Passphrase.askTwice() : passphrase.read()
            if phone {
                let made = try KeyFile.generatePhone(prefix: prefix, passphrase: secret)
                return give(
                    (made.publicKey, made.keyPath, made.publicPath, made.pluginPath), isEncrypted: secret != nil)
            }
            let pair = try KeyFile.generate(algorithm, prefix: prefix, passphrase: secret)
            give((pair.publicKey, pair.keyPath, pair.publicPath, nil), isEncrypted: secret != nil)
        }

        private func give(
            _ made: (publicKey: PublicKey, keyPath: String, publicPath: String, pluginPath: String?), isEncrypted: Bool
        ) {
            if !isEncrypted {
                Output.warn("the key is not encrypted: give --passphrase-file or --prompt to encrypt it")
            }
            let key = made.publicKey
            var object: JSONObject = [
                "algorithm": .string(made.pluginPath == nil ? key.algorithm.rawValue : "rsa-pkcs1"),
                "keyId": .string(key.id), "key": .string(made.keyPath), "publicKey": .string(made.publicPath),
                "encrypted": .bool(isEncrypted),
            ]
            object["pluginKey"] = made.pluginPath.map(JSONValue.string)
            let use = made.pluginPath.map {
                [
                    "\(made.publicPath)  public key, for Capawesome's plugin", "\($0)  public key, for Capgo's plugin",
                ]
            }
            Output.give(
                json: common.json, afterChange: true, object,
                lines: ["\(made.keyPath)  private key, keep it secret"]
                    + (use ?? ["\(made.publicPath)  public key, for --trust"]) + ["key id \(key.id)"])
        }
    }

    struct ChangePassphrase: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "passwd",
            abstract: "Change, set or remove the passphrase of a private key.",
            discussion: """
                The key stays the same. The command replaces the whole file; copies of the
                file keep the old passphrase.

                Examples:
                  clientctl keys passwd release.key.pem --prompt
                  clientctl keys passwd release.key.pem --passphrase-file old.txt \\
                    --new-passphrase-file new.txt
                """)

        @Argument(help: "The private key (PEM).", completion: .file())
        var file: String

        @OptionGroup var passphrase: PassphraseOptions

        @Option(
            help: ArgumentHelp("File or pipe whose first line is the new passphrase.", valueName: "file"),
            completion: .file())
        var newPassphraseFile: String?

        @Flag(help: "Ask for the new passphrase at the terminal, twice.")
        var prompt = false

        @Flag(help: "Remove the passphrase.")
        var noPassphrase = false

        @OptionGroup var common: CommonOptions

        func run() throws {
            guard [newPassphraseFile != nil, prompt, noPassphrase].count(where: \.self) == 1 else {
                throw ValidationError("Give exactly one of --new-passphrase-file, --prompt and --no-passphrase.")
            }
            let changed = try KeyFile.changePassphrase(at: file) {
                try passphrase.require(for: file)
            } new: {
                if let newPassphraseFile { return try PassphraseOptions.firstLine(of: newPassphraseFile) }
                return prompt ? try Passphrase.askTwice() : nil
            }
            Output.give(
                json: common.json, afterChange: true,
                [
                    "algorithm": .string(changed.publicKey.algorithm.rawValue),
                    "keyId": .string(changed.publicKey.id), "key": .string(file),
                    "encrypted": .bool(changed.isEncrypted),
                ],
                lines: [
                    "\(file)  \(changed.isEncrypted ? "has the new passphrase" : "has no passphrase: keep it secret")",
                    "key id \(changed.publicKey.id)",
                ])
        }
    }

    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show",
            abstract: "Show the algorithm and key id of a public or private key.",
            discussion: """
                Example:
                  clientctl keys show release.pub.pem
                """)

        @Argument(help: "The public or private key (PEM).", completion: .file())
        var file: String

        @OptionGroup var passphrase: PassphraseOptions
        @OptionGroup var common: CommonOptions

        func run() throws {
            let (key, isPrivate) = try KeyFile.publicHalf(at: file) { try passphrase.require(for: file) }
            Output.give(
                json: common.json,
                [
                    "algorithm": .string(key.algorithm.rawValue), "keyId": .string(key.id),
                    "bits": .integer(key.bits), "private": .bool(isPrivate),
                ],
                lines: [
                    "algorithm  \(key.algorithm.rawValue) (\(key.bits) bits)", "key id     \(key.id)",
                    "kind       \(isPrivate ? "private" : "public")",
                ])
        }
    }
}
