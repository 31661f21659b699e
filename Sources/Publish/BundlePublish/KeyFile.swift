import BundleValues
import BundleDisk
package import BundleSigning

/// Keys as files: the only way that private keys come in and go out.
package enum KeyFile {
    private static let maximumBytes = 64 * 1024

    /// Reads a PKCS#8 key to sign with; `passphrase` is asked only if it is encrypted.
    ///
    /// A file that others can read is refused: its key may be known to them already.
    package static func signer(at path: String, passphrase: () throws -> [UInt8]) throws -> Signer {
        let secret = try Secret(at: path)
        if (try? PublicKey(parsingPEM: secret.bytes)) != nil {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) cannot be used: \(KeyError.publicKeyGiven).")
        }
        return try signer(of: secret, path, passphrase)
    }

    private static func signer(of secret: Secret, _ path: String, _ passphrase: () throws -> [UInt8]) throws -> Signer {
        Signer(try privateKey(of: secret, path, passphrase))
    }

    private static func privateKey(
        of secret: Secret, _ path: String, _ passphrase: () throws -> [UInt8]
    ) throws -> PrivateKey {
        if secret.isOpenToOthers {
            throw UpdateFailure(
                .permissionDenied, subject: path,
                "Others can read the private key \(path): run `chmod 600` on it, or better, make a new one.")
        }
        do {
            return try PrivateKey(parsingPEM: secret.bytes, passphrase: passphrase)
        } catch let error as KeyError {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) cannot be used: \(error).")
        }
    }

    /// What a file or a pipe holds, read once: a pipe gives it once.
    private struct Secret {
        let bytes: [UInt8]
        let isOpenToOthers: Bool

        init(at path: String) throws {
            var isOpen = false
            bytes = try File.contents(ofArgument: path, maximumBytes: maximumBytes) { file, isPipe in
                isOpen = try !isPipe && file.permissions() & 0o077 != 0
            }
            isOpenToOthers = isOpen
        }
    }

    /// Makes a key pair and writes `PREFIX.key.pem` (mode 0600, encrypted where there is a passphrase) and
    /// `PREFIX.pub.pem`. Never overwrites.
    package static func generate(
        _ algorithm: KeyAlgorithm, prefix: String, passphrase: [UInt8]?
    ) throws -> (publicKey: PublicKey, keyPath: String, publicPath: String) {
        let keyPath = prefix + ".key.pem"
        let publicPath = prefix + ".pub.pem"
        for path in [keyPath, publicPath] where File.exists(path) {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) exists and is not overwritten: choose another --out.")
        }
        do {
            let key = try PrivateKey.generate(algorithm)
            try File.write(try key.pem(passphrase: passphrase), to: keyPath, mode: 0o600)
            try File.write(Array(key.publicKey.pem.utf8), to: publicPath, mode: 0o644)
            return (key.publicKey, keyPath, publicPath)
        } catch let error as KeyError {
            throw UpdateFailure(.configInvalid, subject: keyPath, "No key was made: \(error).")
        }
    }

    /// Replaces the private key at `path` by the same one, encrypted with what `new` gives, or not at all for nil. The file is
    /// the old one or the new one, whole, whenever this stops.
    package static func changePassphrase(
        at path: String, old: () throws -> [UInt8], new: () throws -> [UInt8]?
    ) throws -> (publicKey: PublicKey, isEncrypted: Bool) {
        let slash = path.lastIndex(of: "/")
        let folder = try Directory.open(slash.map { "\(path[...$0])" } ?? ".")
        let name = slash.map { "\(path[path.index(after: $0)...])" } ?? path
        // Replacing a link would leave the key under its old passphrase where the link leads; a pipe cannot be replaced.
        guard case .file? = try folder.kind(of: name) else {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) is no file that can be replaced: name the key's own file.")
        }
        let key = try privateKey(of: try Secret(at: path), path, old)
        let passphrase = try new()
        do {
            try folder.replaceFile(name, with: try key.pem(passphrase: passphrase), mode: 0o600)
            return (key.publicKey, passphrase != nil)
        } catch let error as KeyError {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) was not changed: \(error).")
        }
    }

    /// Reads a public key (PEM).
    package static func publicKey(at path: String) throws -> PublicKey {
        do {
            return try PublicKey(parsingPEM: try File.contents(ofArgument: path, maximumBytes: maximumBytes))
        } catch let error as KeyError {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) is no public key: \(error).")
        }
    }

    /// The public half of whatever key `path` holds.
    package static func publicHalf(at path: String, passphrase: () throws -> [UInt8]) throws -> (
        PublicKey, isPrivate: Bool
    ) {
        let secret = try Secret(at: path)
        do {
            return (try PublicKey(parsingPEM: secret.bytes), false)
        } catch KeyError.privateKeyGiven {
            return (try signer(of: secret, path, passphrase).publicKey, true)
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) is no key: \(error).")
        }
    }
}
