import BundleFormats
import BundleValues
import BundlePublish
import BundleSigning

/// The JSON and the lines that commands print for a trust root.
enum TrustView {
    static func object(_ file: TrustFile) -> JSONObject {
        let root = file.claims
        var roles: JSONObject = [:]
        for role in TrustRole.allCases {
            roles[role.rawValue] = root.roles[role].map {
                .object(["threshold": .integer($0.threshold), "keyIds": .array($0.keyIds.map(JSONValue.string))])
            }
        }
        return [
            "version": .integer(root.version), "appId": .string(orNull: root.appId),
            "issuedAt": .string(root.issued.description), "expires": .string(root.expires.description),
            "expired": .bool(root.expires <= .now), "roles": .object(roles),
            "keys": .array(
                root.keys.map { key in
                    .object([
                        "keyId": .string(key.publicKey.id), "algorithm": .string(key.publicKey.algorithm.rawValue),
                        "roles": .array(root.roles(of: key.publicKey.id).map { .string($0.rawValue) }),
                        "notAfter": .string(orNull: key.notAfter?.description), "label": .string(orNull: key.label),
                    ])
                }),
            "revoked": .array(root.revoked.map(JSONValue.string)),
            "signatures": .array(
                file.signatures.map { signature in
                    .object([
                        "keyId": .string(orNull: signature.keyId), "rootKey": .bool(signature.isRootKey),
                        "good": signature.isValid.map(JSONValue.bool) ?? .null,
                    ])
                }),
            "complete": .bool(file.isComplete),
        ]
    }

    static func lines(_ file: TrustFile, now: Timestamp) -> [String] {
        let root = file.claims
        var lines = [
            "trust root \(root.version) of \(UntrustedName.display(root.appId ?? "no named application"))",
            "  issued   \(root.issued)",
            "  expires  \(root.expires)" + (root.expires <= now ? "  EXPIRED: devices install nothing with it" : ""),
        ]
        for role in TrustRole.allCases {
            guard let named = root.roles[role] else { continue }
            lines.append("  \(role): \(named.threshold) of \(named.keyIds.count) must sign")
            for id in named.keyIds {
                guard let key = root.keys.first(where: { $0.publicKey.id == id }) else { continue }
                lines.append(
                    "    \(key.publicKey.algorithm.rawValue) \(id)"
                        + (key.label.map { " \(UntrustedName.display($0))" } ?? "")
                        + (key.notAfter.map { " until \($0)" } ?? "")
                        + (root.revoked.contains(id) ? " REVOKED" : ""))
            }
        }
        lines += root.revoked.map { "  revoked  \(UntrustedName.display($0))" }
        lines += file.signatures.map { signature in
            "  signed   \(UntrustedName.display(signature.keyId ?? "unnamed key")), \(judgement(signature))"
        }
        return lines + [
            file.isComplete
                ? "  complete: enough of its root keys have signed it"
                : "  DRAFT: more root keys must sign it (clientctl trust sign)"
        ]
    }

    private static func judgement(_ signature: TrustFile.RootSignature) -> String {
        switch (signature.isValid, signature.isRootKey) {
        case (true?, true): "a root key"
        case (false?, _): "INVALID signature"
        default: "not a root key of this version: valid only if it is a root key of the previous version"
        }
    }

    /// Prints the result of a command that created, edited or signed the trust root at `path`. `previous` counts the signatures by root
    /// keys of the previous version, if the user named that version.
    static func answer(
        _ file: TrustFile, at path: String, outcome: String, changes: [String], previous: TrustFile.Count? = nil,
        json: Bool
    ) throws {
        let root = file.claims
        let own = file.count(by: root)
        let before =
            previous.map { ", \($0.signed) of version \($0.version) (\($0.needed) needed)" }
            ?? (root.version == 1 ? "" : "; root keys of version \(root.version - 1) must also sign")
        Output.give(
            json: json, afterChange: true,
            [
                "outcome": .string(outcome), "file": .string(path), "version": .integer(root.version),
                "expires": .string(root.expires.description), "complete": .bool(file.isComplete),
                "signatures": .integer(own.signed), "threshold": .integer(own.needed),
                "previousSignatures": previous.map { .integer($0.signed) } ?? .null,
                "previousThreshold": previous.map { .integer($0.needed) } ?? .null,
                "changes": .array(changes.map(JSONValue.string)),
            ],
            lines: ["\(path): trust root \(root.version), \(outcome)"] + changes.map { "  \($0)" } + [
                "  until    \(root.expires)",
                "  signed   by \(own.signed) root \(own.signed == 1 ? "key" : "keys") of version \(own.version) (\(own.needed) needed)"
                    + before,
            ])
    }
}

/// The rule for application ids.
enum AppId {
    static let usage = "--app-id takes a reverse-DNS name such as com.example.kiosk."

    static func isReverseDNS(_ text: String) -> Bool {
        let labels = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return labels.count >= 2 && text.utf8.count <= 255
            && labels.allSatisfy { label in
                !label.isEmpty
                    && label.allSatisfy {
                        $0.isASCIILetter || $0.isASCIIDigit || "-_".utf8.contains($0)
                    }
            }
    }
}
