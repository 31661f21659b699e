import BundleValues
import BundleSigning

/// What speaks for an asset's bytes being those of the manifest, the strongest first (METEOR section 1.5).
package enum AssetEvidence: String, Sendable, CaseIterable {
    /// Their SHA-1 is the hash: Meteor up to 1.4.2.
    case sha1
    /// Their SHA-512 is the `sri`.
    case sri
    /// The hash is made of their SHA-1 by the recipe for files of the `public` folder: Meteor 1.8.1 and later.
    case meteorPublic = "meteor-public"
    /// The server labelled the answer with the hash.
    case label
    /// Nothing.
    case none

    /// Whether the bytes themselves prove it; a label is only the word of whoever answered.
    package var isProof: Bool { self != .label && self != .none }
}

/// What to do about an asset that nothing speaks for.
public enum VerificationMode: Sendable, Equatable {
    /// Refuse it, if it has a hash that something could speak for.
    case strict
    /// Take it: servers behind a proxy may lose their labels.
    case compatible
}

/// The label that Meteor's file server gives to an answer.
package enum AssetLabel {
    /// The hash that an entity tag carries: exactly 40 lower-case hex digits in quotes, weak or not. Nil for any other tag.
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
    /// What the bytes prove about `asset`; nil where they prove nothing.
    func proof(of asset: MeteorAsset) throws(OpenSSLFailure) -> AssetEvidence? {
        let hex = LabelHasher.hex(sha1)
        if let hash = asset.hash, hash == hex { return .sha1 }
        if let sri = asset.sri, sri == sha512 { return .sri }
        if let hash = asset.hash, hash == (try publicHash) { return .meteorPublic }
        return nil
    }

    /// The hash that such a file of the `public` folder has.
    var publicHash: String {
        get throws(OpenSSLFailure) {
            LabelHasher.hex(try LabelHasher.digest(Array("2\(LabelHasher.hex(sha1))".utf8), .sha1))
        }
    }
}
