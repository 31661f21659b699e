public import BundleCore
import BundleSigning
public import BundleValues

/// The clients of a device, and the last failed start. A page reads the same with `getStatus()`.
public struct DeviceStatus: Sendable, Equatable {
    /// The state of a client on its device. The raw values are those of the page's interface.
    public enum ClientState: String, Sendable, Equatable {
        /// The client of the shell itself, which needs no confirmation.
        case seed
        /// The client has not been launched.
        case staged
        /// The client runs and awaits its confirmation.
        case trial
        /// The client has confirmed a start.
        case good
        /// The client has failed once. It is tried once more later.
        case failed
        /// The client does not run again.
        case blocked
    }

    /// A client of the device.
    public struct Client: Sendable, Equatable {
        /// The name of the client.
        public let name: ClientName
        /// The state of the client.
        public let state: ClientState
        /// The facts about an installed client; nil for the seed.
        public let facts: Facts?
    }

    /// What a device has recorded about an installed client.
    public struct Facts: Sendable, Equatable {
        /// The size of its files in bytes.
        public let size: Int
        /// The beginning of its release notes, at most 2,000 characters; nil if it has none.
        public let notes: String?
        /// Whether its channel marks it as urgent.
        public let isUrgent: Bool
        /// The SHA-256 of its content, in hexadecimal.
        public let sha256: String
        /// The time of its installation.
        public let installedAt: Timestamp
        /// The time of its last confirmed start; nil before one, and after a failed start.
        public let confirmedAt: Timestamp?
    }

    /// A start that failed.
    public struct FailedStart: Sendable, Equatable {
        /// The client that failed.
        public let name: ClientName
        /// The kind of failure: `notConfirmed`, `interrupted`, `reported`, `notPrepared` or `blankScreen`. Later versions can add words.
        public let cause: String
        /// The failure for people.
        public let message: String
        /// The time at which the failure was detected.
        public let at: Timestamp
        /// The time after which a check starts the second trial; nil if there is none.
        public let retryAt: Timestamp?
    }

    /// The running client; nil before the first launch.
    public let running: Client?
    /// The client that `reload` would show; nil if there is none.
    public let ready: Client?
    /// The installed clients.
    public let installed: [Client]
    /// The newest failed start of a client that has not confirmed a start since, whether or not the client is still installed.
    public let lastFailure: FailedStart?
    /// Whether the running client replaced the one that failed last, and has not confirmed a start since.
    public let isRolledBack: Bool
    /// The version of the shell.
    public let shellVersion: SemanticVersion
}

extension DeviceStatus {
    /// Describes the clients of `inventory`. `ready` is the client that could replace the `running` one.
    init(_ inventory: Inventory, shell: SemanticVersion, running: ClientName?, ready: ClientName?) {
        let ledger = inventory.ledger
        self.running = running.map { Client($0, ledger) }
        self.ready = ready.map { Client($0, ledger) }
        installed = inventory.bundles.map { Client($0.name, ledger) }
        let failed = Self.lastFailure(ledger)
        lastFailure = failed.map { FailedStart($0.version, $0.failure, ledger) }
        isRolledBack = failed.map { Self.isRolledBack(to: running, after: $0, ledger) } ?? false
        shellVersion = shell
    }

    private static func lastFailure(_ ledger: Ledger) -> (version: ClientVersion, failure: StartFailure)? {
        ledger.records.flatMap { record in record.failures.map { (record.version, $0) } }.max { $0.1.at < $1.1.at }
    }

    /// Returns whether `running` was confirmed, or is the seed, before the failure of another client.
    private static func isRolledBack(
        to running: ClientName?, after failed: (version: ClientVersion, failure: StartFailure), _ ledger: Ledger
    ) -> Bool {
        guard let running, running.version != failed.version else { return false }
        guard let version = running.version else { return true }
        return ledger.record(of: version)?.goodSince.map { $0 <= failed.failure.at } ?? false
    }
}

extension DeviceStatus.Client {
    fileprivate init(_ name: ClientName, _ ledger: Ledger) {
        self.name = name
        guard let version = name.version, let entry = ledger.entry(version) else {
            (state, facts) = (.seed, nil)
            return
        }
        state =
            switch ledger.standing(of: version) {
            case .staged: .staged
            case .trial: .trial
            case .good: .good
            case .failed: .failed
            case .blocked: .blocked
            }
        facts = DeviceStatus.Facts(
            size: entry.installedSize, notes: entry.notes, isUrgent: ledger.isUrgent(version),
            sha256: entry.contentSha256.hex, installedAt: entry.installedAt,
            confirmedAt: ledger.record(of: version)?.goodSince)
    }
}

extension DeviceStatus.FailedStart {
    fileprivate init(_ version: ClientVersion, _ failure: StartFailure, _ ledger: Ledger) {
        name = .installed(version)
        (cause, message, at) = (failure.cause.rawValue, failure.description, failure.at)
        retryAt = ledger.failureBeforeRetry(of: .installed(version))?.retryAt
    }
}

extension ClientShell {
    /// Returns the clients of this device, and the last failed start. Throws if the store cannot be read.
    public func deviceStatus() throws -> DeviceStatus {
        DeviceStatus(
            try launcher.inventory(), shell: configuration.device.shell, running: currentVersion,
            ready: availableVersion)
    }
}
