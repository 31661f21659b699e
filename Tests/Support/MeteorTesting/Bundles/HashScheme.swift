/// The way in which a generation of Meteor servers computes the `hash` of an entry (METEOR section 1.5).
package enum HashScheme: String, Sendable, CaseIterable {
    /// Up to 1.4.2, and in all fixtures of the Cordova plugin: the SHA-1 of the bytes.
    case bytes
    /// 1.4.2.1 to 1.7.0: the SHA-1 of a salt and the bytes.
    case saltedContents
    /// 1.7.1 to 1.8.0: the SHA-1 of a salt and the `sri`.
    case saltedSRI
    /// From 1.8.1: the SHA-1 of "2", an optional input hash, and the `sri`; for public assets of "2" and the hexadecimal
    /// SHA-1 of the bytes.
    case modern

    /// The salt of the two middle generations. Clients do not know that of a server, so any text is suitable.
    package static let salt = "1"

    /// Returns the hash in lower-case hexadecimal.
    package func hash(of digests: ContentDigests, isPublicAsset: Bool, inputHash: String? = nil) throws -> String {
        switch self {
        case .bytes: digests.sha1
        case .saltedContents: digests.saltedSHA1
        case .saltedSRI: try SHA1.hex(of: Self.salt + digests.sri)
        case .modern:
            isPublicAsset
                ? try SHA1.hex(of: "2" + digests.sha1) : try SHA1.hex(of: "2" + (inputHash ?? "") + digests.sri)
        }
    }

    /// Whether a manifest of the generation states `sri` for the entry.
    package func statesSRI(isPublicAsset: Bool) -> Bool {
        switch self {
        case .bytes, .saltedContents: false
        case .saltedSRI: true
        case .modern: !isPublicAsset
        }
    }
}
