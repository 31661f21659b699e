import ArgumentParser
import BundlePublish
import BundleSigning

/// Reads signers from key files and signing commands. Each command has the public key at the same position.
enum Signers {
    struct Flags {
        let key: String
        let command: String
        let publicKey: String
    }

    static func read(
        _ flags: Flags, keys: [String], commands: [String], publicKeys: [String], passphrase: PassphraseOptions
    ) throws -> [Signer] {
        // If the command line names a key, a key in the configuration must not sign, too.
        let isGiven = CommandLineFlags.containAny(of: flags.key, flags.command)
        func own(_ values: [String], of flag: String) -> [String] {
            isGiven && !CommandLineFlags.contain(flag) ? [] : values
        }
        let (keys, commands) = (own(keys, of: flags.key), own(commands, of: flags.command))
        let publicKeys = commands.isEmpty ? own(publicKeys, of: flags.publicKey) : publicKeys
        guard commands.count == publicKeys.count else {
            throw ValidationError(
                "Each --\(flags.command) needs a --\(flags.publicKey), the PEM public key that verifies its signatures: "
                    + "\(commands.count) and \(publicKeys.count) were given.")
        }
        let signers =
            try keys.map { path in try KeyFile.signer(at: path) { try passphrase.require(for: path) } }
            + zip(commands, publicKeys).map { Signer(SigningCommand($0), publicKey: try KeyFile.publicKey(at: $1)) }
        if Set(signers.map(\.publicKey.id)).count != signers.count {
            throw ValidationError(
                "The same key is given twice, but only one signature of a key is valid. Give each key once.")
        }
        return signers
    }
}
