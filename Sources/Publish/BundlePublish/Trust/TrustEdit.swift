package import BundleFormats
package import BundleValues
package import BundleSigning

/// An edit of a trust root. The caller checks that the result can be satisfied.
package enum TrustEdit: Sendable {
    /// Lets a key sign for a role.
    case add(PublicKey, to: TrustRole, threshold: Int?, notAfter: Timestamp?)
    /// Removes a key from a role, or from all roles for nil. All signatures of a revoked key become invalid.
    case remove(String, from: TrustRole?, revoked: Bool, threshold: Int?)
    /// Replaces a key in all its roles.
    case replace(String, by: PublicKey, revoked: Bool)
    /// Sets the label of a key; nil removes it.
    case label(String, String?)
    /// Several edits, in this order.
    case all([TrustEdit])

    /// Applies the edit. Returns the changes in words.
    package func apply(to root: inout TrustRoot) throws -> [String] {
        switch self {
        case .add(let key, let role, let threshold, let notAfter):
            try root.add(key, to: role, threshold: threshold, notAfter: notAfter)
        case .remove(let id, let role, let isRevoked, let threshold):
            try root.remove(id, from: role, isRevoked: isRevoked, threshold: threshold)
        case .replace(let id, let key, let isRevoked): try root.replace(id, by: key, isRevoked: isRevoked)
        case .label(let id, let label): try root.setLabel(label, of: id)
        case .all(let edits): try edits.flatMap { try $0.apply(to: &root) }
        }
    }
}

extension TrustRoot {
    fileprivate mutating func add(
        _ key: PublicKey, to role: TrustRole, threshold: Int?, notAfter: Timestamp?
    ) throws -> [String] {
        try requireUsable(key)
        var changes: [String] = []
        if let index = keys.firstIndex(where: { $0.publicKey.id == key.id }) {
            if let notAfter, keys[index].notAfter != notAfter {
                keys[index].notAfter = notAfter
                changes.append("key \(key.id): until \(notAfter)")
            }
        } else {
            keys.append(Key(key, notAfter: notAfter))
        }
        var named = roles[role] ?? Role(threshold: 1, keyIds: [])
        if !named.keyIds.contains(key.id) {
            named.keyIds.append(key.id)
            changes.append("\(role): key \(key.id) added")
        }
        changes += Self.setThreshold(threshold, of: role, in: &named)
        roles[role] = named
        return changes
    }

    fileprivate mutating func remove(
        _ id: String, from role: TrustRole?, isRevoked: Bool, threshold: Int?
    ) throws -> [String] {
        let held = roles(of: id).filter { role == nil || $0 == role }
        if held.isEmpty && !(isRevoked && !revoked.contains(id)) {
            throw TrustEdit.missing(id, in: role.map { "the role \($0)" } ?? "any role", of: self)
        }
        var changes: [String] = []
        for role in held {
            guard var named = roles[role] else { continue }
            named.keyIds.removeAll { $0 == id }
            changes.append("\(role): key \(id) removed")
            changes += Self.setThreshold(threshold, of: role, in: &named)
            // Without channel keys, the release keys sign channels.
            roles[role] = role == .channel && named.keyIds.isEmpty ? nil : named
        }
        changes += removeUnusedKey(id, isRevoked: isRevoked)
        try requireSatisfiable()
        return changes
    }

    fileprivate mutating func replace(_ id: String, by key: PublicKey, isRevoked: Bool) throws -> [String] {
        try requireUsable(key)
        let held = roles(of: id)
        if held.isEmpty { throw TrustEdit.missing(id, in: "any role", of: self) }
        if key.id == id {
            throw UpdateFailure(
                .configInvalid, subject: id, "The new key equals the old one. Create another with `keys generate`.")
        }
        if !keys.contains(where: { $0.publicKey.id == key.id }) { keys.append(Key(key)) }
        var changes: [String] = []
        for role in held {
            guard var named = roles[role] else { continue }
            if named.keyIds.contains(key.id) {
                named.keyIds.removeAll { $0 == id }
            } else {
                named.keyIds = named.keyIds.map { $0 == id ? key.id : $0 }
            }
            roles[role] = named
            changes.append("\(role): key \(id) replaced by \(key.id)")
        }
        changes += removeUnusedKey(id, isRevoked: isRevoked)
        try requireSatisfiable()
        return changes
    }

    fileprivate mutating func setLabel(_ label: String?, of id: String) throws -> [String] {
        guard let index = keys.firstIndex(where: { $0.publicKey.id == id }) else {
            throw TrustEdit.missing(id, in: "any role", of: self)
        }
        if keys[index].label == label { return [] }
        if let label {
            guard KeyLabel.isValid(label) else {
                throw UpdateFailure(
                    .configInvalid, subject: UntrustedName.display(label),
                    "\(UntrustedName.display(label)) cannot be a label. A label has \(KeyLabel.rule). Choose another one."
                )
            }
            if let other = keys.first(where: { $0.label == label }) {
                throw UpdateFailure(
                    .configInvalid, subject: label,
                    "The key \(other.publicKey.id) has the label \(label) already. Choose another one, because a label stands for one key."
                )
            }
        }
        keys[index].label = label
        return ["key \(id): " + (label.map { "label \($0)" } ?? "no label")]
    }

    /// Removes or revokes a key that has no role left.
    private mutating func removeUnusedKey(_ id: String, isRevoked: Bool) -> [String] {
        if roles(of: id).isEmpty { keys.removeAll { $0.publicKey.id == id } }
        guard isRevoked, !revoked.contains(id) else { return [] }
        revoked.append(id)
        return ["key \(id): revoked"]
    }

    private func requireUsable(_ key: PublicKey) throws {
        guard revoked.contains(key.id) else { return }
        throw UpdateFailure(
            .configInvalid, subject: key.id, "The key \(key.id) is revoked permanently. Create another key.")
    }

    /// Throws if a role has fewer usable keys than its threshold.
    package func requireSatisfiable() throws {
        for role in TrustRole.allCases {
            guard let named = roles[role] else { continue }
            let usable = trusted(for: role, at: nil).keys.count
            if usable >= named.threshold, usable > 0 { continue }
            throw UpdateFailure(
                .configInvalid, subject: "\(role)",
                "The role \(role) requires \(counted(named.threshold, "signature")) by different keys and would have "
                    + "\(counted(usable, "usable key")). Add a key, or give a lower threshold.")
        }
    }

    private static func setThreshold(_ threshold: Int?, of role: TrustRole, in named: inout Role) -> [String] {
        guard let threshold, threshold != named.threshold else { return [] }
        defer { named.threshold = threshold }
        return ["\(role): \(named.threshold) → \(counted(threshold, "signature")) needed"]
    }
}

extension TrustEdit {
    fileprivate static func missing(_ id: String, in location: String, of root: TrustRoot) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: UntrustedName.display(id),
            "The key \(UntrustedName.display(id)) is not in \(location) of trust root \(root.version). `clientctl trust show` "
                + "lists its keys.")
    }
}
