import BundleValues
import BundleDisk
package import BundleSigning

/// Reads and writes keys in files.
package enum KeyFile {
    private static let maximumBytes = 64 * 1024

    /// Reads a PKCS#8 private key. `passphrase` is called only if the key is encrypted.
    ///
    /// Throws if other users can read the file, because they may know its key already.
    package static func signer(at path: String, passphrase: () throws -> [UInt8]) throws -> Signer {
        let secret = try Secret(at: path)
        if (try? PublicKey(parsingPEM: secret.bytes)) != nil {
            let advice = path.dropping(suffix: ".pub.pem").map { "\($0).key.pem" }.flatMap { name in
                File.exists(name) ? " Give \(name)." : nil
            }
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) cannot be used: \(KeyError.publicKeyGiven).\(advice ?? "")")
        }
        return try signer(of: secret, path: path, passphrase: passphrase)
    }

    private static func signer(of secret: Secret, path: String, passphrase: () throws -> [UInt8]) throws -> Signer {
        Signer(try privateKey(of: secret, path: path, passphrase: passphrase))
    }

    private static func privateKey(
        of secret: Secret, path: String, passphrase: () throws -> [UInt8]
    ) throws -> PrivateKey {
        // Any other file gets the error of the parser: it has no key that others could know.
        if secret.isOpenToOthers, secret.bytes.firstRange(of: Array("-----BEGIN".utf8)) != nil {
            throw UpdateFailure(
                .permissionDenied, subject: path,
                "Others can read the private key \(path): run `chmod 600` on it, or better, create a new one.")
        }
        do {
            return try PrivateKey(parsingPEM: secret.bytes, passphrase: passphrase)
        } catch let error as KeyError {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) cannot be used: \(error).")
        }
    }

    /// The content of a file or a pipe, which can be read only once.
    private struct Secret {
        let bytes: [UInt8]
        let isOpenToOthers: Bool

        init(at path: String) throws {
            var isOpen = false
            let content = try File.contents(ofArgument: path, maximumBytes: maximumBytes) { file, isPipe in
                isOpen = try !isPipe && file.permissions() & 0o077 != 0
            }
            bytes = try EditedText.bytes(of: content, in: path)
            isOpenToOthers = isOpen
        }
    }

    /// Creates a key pair and writes `PREFIX.key.pem` (mode 0600, encrypted if there is a passphrase) and
    /// `PREFIX.pub.pem`. Never overwrites a file.
    package static func generate(
        _ algorithm: KeyAlgorithm, prefix: String, passphrase: [UInt8]?
    ) throws -> (publicKey: PublicKey, keyPath: String, publicPath: String) {
        let keyPath = prefix + ".key.pem"
        let publicPath = prefix + ".pub.pem"
        for path in [keyPath, publicPath] where File.exists(path) {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) already exists. Choose another --out.")
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

    /// Creates an RSA key for phones and writes `PREFIX.key.pem` as `generate` does, `PREFIX.pub.pem`, and `PREFIX.pkcs1.pem` in the
    /// form that Capgo's plugin reads. Never overwrites a file.
    package static func generatePhone(
        prefix: String, passphrase: [UInt8]?
    ) throws -> (publicKey: PublicKey, keyPath: String, publicPath: String, pluginPath: String) {
        let paths = [".key.pem", ".pub.pem", ".pkcs1.pem"].map { prefix + $0 }
        for path in paths where File.exists(path) {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) already exists. Choose another --out.")
        }
        do {
            let key = try PhoneKey.generate()
            try File.write(try key.pem(passphrase: passphrase), to: paths[0], mode: 0o600)
            try File.write(Array(key.publicKey.pem.utf8), to: paths[1], mode: 0o644)
            try File.write(try key.pkcs1PEM(), to: paths[2], mode: 0o644)
            return (key.publicKey, paths[0], paths[1], paths[2])
        } catch let error as KeyError {
            throw UpdateFailure(.configInvalid, subject: paths[0], "No key was made: \(error).")
        }
    }

    /// Reads an RSA key for phones. `passphrase` is called only if the key is encrypted.
    package static func phoneSealer(at path: String, passphrase: () throws -> [UInt8]) throws -> PhoneSealer {
        let key = try privateKey(of: try Secret(at: path), path: path, passphrase: passphrase)
        do {
            return PhoneSealer(try PhoneKey(key))
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) cannot be used: \(error).")
        }
    }

    /// Writes the public key of the private key at `keyPath` to `publicPath`, which must not exist.
    package static func writePublicHalf(
        of keyPath: String, to publicPath: String, passphrase: () throws -> [UInt8]
    ) throws {
        let key = try publicHalf(at: keyPath, passphrase: passphrase).0
        try File.write(Array(key.pem.utf8), to: publicPath, mode: 0o644)
    }

    /// Encrypts the private key at `path` with the passphrase that `new` returns, or stores it unencrypted for nil. A
    /// stop at any point leaves the old file or the new file.
    package static func changePassphrase(
        at path: String, old: () throws -> [UInt8], new: () throws -> [UInt8]?
    ) throws -> (publicKey: PublicKey, isEncrypted: Bool) {
        let slash = path.lastIndex(of: "/")
        let folder = try Directory.open(slash.map { "\(path[...$0])" } ?? ".")
        let name = slash.map { "\(path[path.index(after: $0)...])" } ?? path
        // Replacing a symbolic link would leave the key under its old passphrase; a pipe cannot be replaced.
        guard case .file? = try folder.kind(of: name) else {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) is not a regular file. Give the path of the key file itself.")
        }
        let key = try privateKey(of: try Secret(at: path), path: path, passphrase: old)
        let passphrase = try new()
        do {
            try folder.replaceFile(name, with: try key.pem(passphrase: passphrase), mode: 0o600)
            return (key.publicKey, passphrase != nil)
        } catch let error as KeyError {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) was not changed: \(error).")
        }
    }

    package static func publicKey(at path: String) throws -> PublicKey {
        do {
            let content = try File.contents(ofArgument: path, maximumBytes: maximumBytes)
            return try PublicKey(parsingPEM: try EditedText.bytes(of: content, in: path))
        } catch let error as KeyError {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) is not a public key: \(error).")
        }
    }

    /// Returns the public key of the private or public key at `path`.
    package static func publicHalf(at path: String, passphrase: () throws -> [UInt8]) throws -> (
        PublicKey, isPrivate: Bool
    ) {
        let secret = try Secret(at: path)
        do {
            return (try PublicKey(parsingPEM: secret.bytes), false)
        } catch KeyError.privateKeyGiven {
            return (try signer(of: secret, path: path, passphrase: passphrase).publicKey, true)
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) is not a key: \(error).")
        }
    }
}
