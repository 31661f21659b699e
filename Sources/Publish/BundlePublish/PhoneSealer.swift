import BundleFormats
import BundleArchive
import BundleDisk
package import BundleSigning
import BundleValues

/// Makes bundles for the updater plugins of phones.
package final class PhoneSealer {
    private let key: PhoneKey

    package init(_ key: consuming PhoneKey) { self.key = key }

    /// Encrypts `zip`, whose digest is `digest`, into the empty `file`, and returns what phones need to open it.
    func seal(_ zip: File, _ digest: SHA256Digest, into file: File) throws -> PhoneBundle.Sealing {
        let session = try key.session(for: digest)
        var cipher = try PhoneCipher(key: session.key, iv: session.iv)
        var hasher = try SHA256Hasher()
        var size = 0
        func write(_ bytes: [UInt8]) throws {
            try hasher.update(bytes)
            try file.write(bytes)
            size += bytes.count
        }
        _ = try zip.forEachBlock { try write(cipher.update($0)) }
        try write(try cipher.finish())
        try file.sync()
        let sealedKey = try key.seal(session.key)
        let checksum = try key.seal(digest.withUnsafeBytes { Array($0) })
        return PhoneBundle.Sealing(
            keyId: try key.keyId(), signature: Base64.encode(try key.signature(of: digest)),
            encryption: PhoneBundle.Encryption(
                file: PhoneBundle.PhoneFile(
                    name: PhoneBundleFormat.encryptedName, sha256: try hasher.finish(), size: size),
                checksum: Self.hex(checksum),
                sessionKey: "\(Base64.encode(session.iv)):\(Base64.encode(sealedKey))"))
    }

    private static func hex(_ bytes: [UInt8]) -> String {
        bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}

extension ReleaseBuilder {
    /// Writes the bundle of `release` for phones to `scratch`, signed by the keys of the release. Returns the names of its files, the
    /// document last; none unless the release is for phones. Without `sealer`, phones trust the server that they download from.
    func phoneFiles(
        of release: SignedRelease, _ tree: CanonicalTree, team: Team, sealer: PhoneSealer?, in scratch: Directory
    ) throws -> (names: [String], bundle: PhoneBundle?) {
        guard options.isForPhones else { return ([], nil) }
        var zipped = options
        zipped.format = .zip
        zipped.level = nil
        let zip = try scratch.file(creating: PhoneBundleFormat.zipName)
        let packed = try ArchivePacker(tree: tree, options: zipped, report: UpdateObserver()).pack(into: zip)
        guard packed.contentSha256 == release.manifest.contentSha256 else {
            throw UpdateFailure(
                .configInvalid, subject: tree.folder.path,
                "\(tree.folder.path) changed while it was packed: let the build finish, then run it again.")
        }
        try zip.sync()
        let file = PhoneBundle.PhoneFile(name: PhoneBundleFormat.zipName, sha256: packed.sha256, size: packed.size)
        var names = [PhoneBundleFormat.zipName]
        var sealing: PhoneBundle.Sealing?
        if let sealer {
            let encrypted = try scratch.file(creating: PhoneBundleFormat.encryptedName)
            let reading = try scratch.file(PhoneBundleFormat.zipName)
            sealing = try sealer.seal(reading, packed.sha256, into: encrypted)
            names.append(PhoneBundleFormat.encryptedName)
        }
        let bundle = try PhoneBundle(of: release.manifest, zip: file, sealing: sealing)
        let document = try team.all.sign(PhoneBundleFormat.envelope(of: bundle)).document
        _ = try PhoneBundleFormat.verify(document, of: release.manifest, trusted: team.all.trusted)
        try scratch.replaceFile(PhoneBundleFormat.fileName, with: document)
        return (names + [PhoneBundleFormat.fileName], bundle)
    }
}
