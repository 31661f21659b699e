package import BundleValues
package import BundleSigning

/// The values of a manifest (CONTRACT section 1), whoever vouches for them.
package struct Manifest: Sendable, Equatable {
    /// The application; nil where the manifest names none.
    package var appId: String?
    /// The client's version.
    package var version: SemanticVersion
    /// Where the archive is: absolute, or relative to the manifest. A hint.
    package var url: String
    /// SHA-256 of the archive as served.
    package var sha256: SHA256Digest
    /// The archive's bytes.
    package var size: Int?
    /// SHA-256 of the canonical tar of the tree.
    package var contentSha256: SHA256Digest?
    /// Sum of the files' sizes in bytes.
    package var installedSize: Int?
    /// Number of files.
    package var fileCount: Int?
    /// The shells that the client is for, both ends included.
    package var shells: ShellRange
    /// When it was made.
    package var createdAt: Timestamp?
    /// The key to try first. A hint.
    package var keyId: String?
    /// Release notes, for people.
    package var notes: String?

    /// States the values of a manifest; those that a manifest may leave out are nil until set.
    package init(version: SemanticVersion, url: String, sha256: SHA256Digest, shells: ShellRange) {
        self.version = version
        self.url = url
        self.sha256 = sha256
        self.shells = shells
    }

    /// The exact bytes that are signed: one line a field, in fixed order, an absent field empty.
    ///
    /// Throws where a value holds a control character, which could imitate another line.
    package func statement() throws(ManifestRefusal) -> [UInt8] {
        let lines: [(name: String, value: String?)] = [
            ("appId", appId),
            ("version", version.description),
            ("sha256", sha256.hex),
            ("size", size.map(String.init)),
            ("contentSha256", contentSha256?.hex),
            ("installedSize", installedSize.map(String.init)),
            ("fileCount", fileCount.map(String.init)),
            ("minShellVersion", shells.minimum.description),
            ("maxShellVersion", shells.maximum?.description),
            ("createdAt", createdAt?.description),
        ]
        var bytes = Array("swap-clients-manifest-v1\n".utf8)
        for (name, value) in lines {
            let text = value ?? ""
            if text.unicodeScalars.contains(where: Self.isControl) {
                throw ManifestRefusal(member: name, problem: "holds a control character")
            }
            bytes += "\(name)=\(text)\n".utf8
        }
        return bytes
    }

    /// Unicode's general category Cc; its own table is slow, and a channel document has many manifests.
    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
    }
}

/// Why bytes are not a manifest.
package struct ManifestRefusal: Error, Equatable, Sendable, CustomStringConvertible {
    /// The member refused, or "manifest".
    package let member: String
    /// What is wrong with it.
    package let problem: String

    /// `member problem`.
    package var description: String { "\(member) \(problem)" }
}

extension ManifestRefusal: ClassifiedFailure {
    /// Always `manifestMalformed`.
    package var failure: UpdateFailure {
        UpdateFailure(
            .manifestMalformed, subject: member,
            "This is not a manifest: \(description). Check the address; if it is right, publish the release again.")
    }
}
