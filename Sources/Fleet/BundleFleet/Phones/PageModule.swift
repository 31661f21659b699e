import ArchiveSource
package import BundleFormats
import BundleSigning
package import BundleValues

/// The JavaScript module with which an app updates from a feed without a server.
package enum PageModule {
    private static let placeholder = "export const TRUST = null;"

    /// Returns the module with the keys of `trust` at `time`. Throws unless all keys are Ed25519, which web views verify.
    package static func text(trusting trust: TrustAnchor, at time: Timestamp) throws -> String {
        let module = String(decoding: PackageResources.page_module_mjs, as: UTF8.self)
        return module.replacing(
            placeholder,
            with:
                "export const TRUST = \(String(decoding: JSONWriter.bytes(of: try json(trust, at: time)), as: UTF8.self));"
        )
    }

    /// Returns the trust as the module reads it.
    package static func json(_ trust: TrustAnchor, at time: Timestamp) throws -> JSONValue {
        var roles = JSONObject()
        for role in [TrustRole.release, .channel, .guard] {
            let keys = trust.keys(for: role, at: time)
            // Plain keys sign releases and channels, and hold nothing.
            if role == .guard, trust.root?.roles[.guard] == nil { continue }
            var object = JSONObject()
            for key in keys.keys {
                guard key.algorithm == .ed25519 else {
                    throw UpdateFailure(
                        .configInvalid, subject: key.id,
                        "The key \(key.id) is \(key.algorithm.rawValue), and web views verify only Ed25519: sign with such keys, or use "
                            + "clientctl feed serve --phones.")
                }
                object[key.id] = .string(Base64.encode(key.spki))
            }
            roles[role.rawValue] = .object(["threshold": .integer(keys.threshold), "keys": .object(object)])
        }
        return .object([
            "expires": .string(orNull: trust.root?.expires.description), "appId": .string(orNull: trust.root?.appId),
            "roles": .object(roles),
        ])
    }
}

extension TrustAnchor {
    fileprivate var root: TrustRoot? { if case .root(let root) = self { root.root } else { nil } }
}
