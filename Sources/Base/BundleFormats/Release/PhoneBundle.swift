package import BundleSigning
package import BundleValues

/// The files of a release for the updater plugins of phones, from its `phone.json`. Like a list of deltas, it grants nothing: it names
/// bytes of a release that the channel offers.
package struct PhoneBundle: Sendable, Equatable {
    /// A file beside the document.
    package struct PhoneFile: Sendable, Equatable {
        package let name: String
        package let sha256: SHA256Digest
        package let size: Int

        package init(name: String, sha256: SHA256Digest, size: Int) {
            (self.name, self.sha256, self.size) = (name, sha256, size)
        }
    }

    /// The zip as version 2 of the encryption of `@capgo/capacitor-updater` expects it.
    package struct Encryption: Sendable, Equatable {
        package let file: PhoneFile
        /// The sealed SHA-256 of the zip, in hexadecimal.
        package let checksum: String
        /// The initialization vector, a colon and the sealed AES key, both in base64.
        package let sessionKey: String

        package init(file: PhoneFile, checksum: String, sessionKey: String) {
            (self.file, self.checksum, self.sessionKey) = (file, checksum, sessionKey)
        }
    }

    /// What the RSA key of the publisher adds.
    package struct Sealing: Sendable, Equatable {
        /// The first 20 base64 digits of the public key.
        package let keyId: String
        /// The signature of the zip that `@capawesome/capacitor-live-update` verifies, in base64.
        package let signature: String
        package let encryption: Encryption

        package init(keyId: String, signature: String, encryption: Encryption) {
            (self.keyId, self.signature, self.encryption) = (keyId, signature, encryption)
        }
    }

    package let appId: String?
    package let version: SemanticVersion
    /// The SHA-256 of the statement of the release's manifest.
    package let manifestSha256: SHA256Digest
    package let zip: PhoneFile
    /// Nil for a bundle without a key.
    package let sealing: Sealing?

    package init(of manifest: Manifest, zip: PhoneFile, sealing: Sealing?) throws {
        appId = manifest.appId
        version = manifest.version
        manifestSha256 = try SHA256Digest.of(manifest.statement())
        self.zip = zip
        self.sealing = sealing
    }
}

/// The file format of a phone bundle: a DSSE envelope of at most 64 KiB.
package enum PhoneBundleFormat {
    /// The file name, in the folder of the archive.
    package static let fileName = "phone.json"
    package static let zipName = "phone.zip"
    package static let encryptedName = "phone.zip.enc"
    package static let maximumBytes = 64 << 10
    package static let payloadType = "application/vnd.swap-clients.phone.v1+json"

    private static let name = "phone bundle"

    /// Returns the bundle in the bytes of a `phone.json` if the required number of `trusted` keys signed it and it is for the
    /// release of `manifest`. The signatures are verified before the payload is parsed.
    package static func verify(
        _ document: [UInt8], of manifest: Manifest, trusted: TrustedKeys
    ) throws -> PhoneBundle {
        let envelope = try SignedEnvelope(
            parsing: document, payloadType: payloadType, maximumBytes: maximumBytes, name: name)
        _ = try trusted.signers(envelope.signatures, over: envelope.message, of: "\(name) of \(manifest.version)")
        let bundle: PhoneBundle
        do {
            let value = try JSONScanner.parse(envelope.payload, maximumBytes: maximumBytes)
            bundle = try read(try MemberReader(value, of: name), of: manifest)
        } catch {
            throw DocumentRefusal(name, error)
        }
        return bundle
    }

    private static func read(_ reader: MemberReader, of manifest: Manifest) throws -> PhoneBundle {
        guard try reader.integer("schema") == 1 else {
            throw reader.refusal("schema", "is not 1: this clientctl is too old for it")
        }
        let bundle = try PhoneBundle(of: manifest, zip: try file(reader), sealing: try sealing(reader))
        guard try reader.version("version") == bundle.version,
            try reader.digest("manifestSha256") == bundle.manifestSha256
        else { throw reader.refusal("version", "is of another release") }
        return bundle
    }

    private static func file(_ reader: MemberReader) throws -> PhoneBundle.PhoneFile {
        let file = try reader.string("file")
        guard [zipName, encryptedName].contains(file) else {
            throw reader.refusal("file", "is neither \(zipName) nor \(encryptedName)")
        }
        return PhoneBundle.PhoneFile(
            name: file, sha256: try reader.digest("sha256"), size: try reader.integer("size"))
    }

    private static func sealing(_ reader: MemberReader) throws -> PhoneBundle.Sealing? {
        guard let encrypted = try reader.optionalObject("encrypted") else { return nil }
        return PhoneBundle.Sealing(
            keyId: try reader.string("keyId"), signature: try reader.string("signature"),
            encryption: PhoneBundle.Encryption(
                file: try file(encrypted), checksum: try encrypted.string("checksum"),
                sessionKey: try encrypted.string("sessionKey")))
    }

    /// Returns an unsigned envelope of `bundle`.
    package static func envelope(of bundle: PhoneBundle) -> SignedEnvelope {
        var object: JSONObject = ["schema": .integer(1)]
        object["appId"] = bundle.appId.map(JSONValue.string)
        object["version"] = .string(bundle.version.description)
        object["manifestSha256"] = .string(bundle.manifestSha256.hex)
        func add(_ file: PhoneBundle.PhoneFile, to object: inout JSONObject) {
            object["file"] = .string(file.name)
            object["sha256"] = .string(file.sha256.hex)
            object["size"] = .integer(file.size)
        }
        add(bundle.zip, to: &object)
        if let sealing = bundle.sealing {
            object["keyId"] = .string(sealing.keyId)
            object["signature"] = .string(sealing.signature)
            var encrypted = JSONObject()
            add(sealing.encryption.file, to: &encrypted)
            encrypted["checksum"] = .string(sealing.encryption.checksum)
            encrypted["sessionKey"] = .string(sealing.encryption.sessionKey)
            object["encrypted"] = .object(encrypted)
        }
        return SignedEnvelope(payloadType: payloadType, payload: JSONWriter.bytes(of: .object(object)))
    }
}
