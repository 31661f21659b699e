import BundleCore
import BundleSigning
import BundleValues

/// The response of `getStatus`: the facts that a page may read about the clients of its device.
struct PageStatus {
    private let inventory: Inventory
    private let shell: SemanticVersion?
    private let running: ClientName?
    private let ready: ClientName?

    /// Describes the clients of `inventory`. `ready` is the client that could replace the `running` one.
    init(_ inventory: Inventory, shell: SemanticVersion?, running: ClientName?, ready: ClientName?) {
        (self.inventory, self.shell, self.running, self.ready) = (inventory, shell, running, ready)
    }

    var object: JSONObject {
        [
            "running": running.map(describe) ?? .null, "ready": ready.map(describe) ?? .null,
            "installed": .array(inventory.bundles.map { describe($0.name) }),
            "lastFailure": lastFailure.map(describe) ?? .null, "rolledBack": .bool(isRolledBack),
            "shell": .string(orNull: shell?.description),
        ]
    }

    /// Returns the members of a client. The seed has only a version and a state.
    private func describe(_ name: ClientName) -> JSONValue {
        let ledger = inventory.ledger
        guard let version = name.version, let entry = ledger.entry(version) else {
            return .object(["version": .string(name.shortDescription), "state": .string("seed")])
        }
        var object: JSONObject = [
            "version": .string(name.shortDescription), "state": .string(ledger.standing(of: version).word),
            "sha256": .string(entry.contentSha256.hex), "installedAt": .string(entry.installedAt.description),
            "confirmedAt": .string(orNull: ledger.record(of: version)?.goodSince?.description),
        ]
        Self.add(ClientFacts(name, ledger), to: &object)
        return .object(object)
    }

    /// Adds the members that describe a client before it runs.
    static func add(_ facts: ClientFacts?, to object: inout JSONObject) {
        guard let facts else { return }
        object["size"] = .integer(facts.size)
        object["notes"] = .string(orNull: facts.notes)
        object["urgent"] = .bool(facts.isUrgent)
    }

    private func describe(_ failed: (version: ClientVersion, failure: StartFailure)) -> JSONValue {
        .object([
            "version": .string(ClientName.installed(failed.version).shortDescription),
            "cause": .string(failed.failure.cause.rawValue), "message": .string(failed.failure.description),
            "at": .string(failed.failure.at.description),
            "retryAt": .string(orNull: retry(of: failed.version)?.retryAt?.description),
        ])
    }

    /// Returns the failure of the first start of `version` if a second trial follows, otherwise nil.
    private func retry(of version: ClientVersion) -> StartFailure? {
        inventory.ledger.failureBeforeRetry(of: .installed(version))
    }

    /// The newest failed start, whether or not its client is still installed.
    private var lastFailure: (version: ClientVersion, failure: StartFailure)? {
        inventory.ledger.records.flatMap { record in record.failures.map { (record.version, $0) } }.max {
            $0.1.at < $1.1.at
        }
    }

    /// Whether the running client was confirmed, or is the seed, before the last failure of another one.
    private var isRolledBack: Bool {
        guard let failed = lastFailure, let running, running.version != failed.version else { return false }
        guard let version = running.version else { return true }
        let goodSince = inventory.ledger.record(of: version)?.goodSince
        return goodSince.map { $0 <= failed.failure.at } ?? false
    }
}

extension ClientShell {
    /// Returns the facts that pages may read about the clients of this device.
    func pageStatus() throws -> JSONObject {
        PageStatus(
            try launcher.inventory(), shell: configuration.device.shell, running: currentVersion,
            ready: availableVersion
        ).object
    }
}
