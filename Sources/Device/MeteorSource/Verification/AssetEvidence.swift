import BundleValues
import BundleSigning

/// The evidence that bytes are the asset of the manifest, strongest first (METEOR section 1.5).
package enum AssetEvidence: String, Sendable, CaseIterable {
    /// The SHA-1 of the bytes is the hash: Meteor up to 1.4.2.
    case sha1
    /// The SHA-512 of the bytes is the `sri`.
    case sri
    /// The hash follows from the SHA-1 by the recipe for files of the `public` folder: Meteor 1.8.1 and later.
    case meteorPublic = "meteor-public"
    /// The server labelled the response with the hash.
    case label
    case none

    /// Whether the bytes prove the asset. A label proves nothing about the bytes.
    package var isProof: Bool { self != .label && self != .none }
}

/// The handling of an asset without evidence.
public enum VerificationMode: Sendable, Equatable {
    /// Reject the asset if it has a hash that could be evidence.
    case strict
    /// Accept the asset, because proxies can remove labels.
    case compatible
}

/// The label of a response by Meteor's file server.
package enum AssetLabel {
    /// Returns the hash in an entity tag: exactly 40 lower-case hexadecimal digits in quotes, weak or strong. Returns nil
    /// for any other tag.
    package static func hash(entityTag: String) -> String? {
        var bytes = entityTag.utf8[...]
        if bytes.starts(with: "W/".utf8) { bytes = bytes.dropFirst(2) }
        guard bytes.count == 42, bytes.first == UInt8(ascii: "\""), bytes.last == UInt8(ascii: "\"") else { return nil }
        let digits = bytes.dropFirst().dropLast()
        guard digits.allSatisfy(\.isLowerCaseHexDigit) else { return nil }
        return String(decoding: digits, as: UTF8.self)
    }
}

extension AssetDigests {
    /// Returns the evidence that the digests are for `asset`, or nil.
    func proof(of asset: MeteorAsset) throws(OpenSSLFailure) -> AssetEvidence? {
        let hex = LabelHasher.hex(sha1)
        if let hash = asset.hash, hash == hex { return .sha1 }
        if let sri = asset.sri, sri == sha512 { return .sri }
        if let hash = asset.hash, hash == (try publicHash) { return .meteorPublic }
        return nil
    }

    /// The hash of a file with these digests in the `public` folder.
    var publicHash: String {
        get throws(OpenSSLFailure) {
            LabelHasher.hex(try LabelHasher.digest(of: Array("2\(LabelHasher.hex(sha1))".utf8), by: .sha1))
        }
    }
}
