public import BundleSigning

/// Everything that a store remembers about versions: one value, one file, replaced whole.
public struct Ledger: Sendable, Equatable {
    /// What is remembered about one installed client.
    public struct Entry: Sendable, Equatable {
        /// What it is and which shells it is for.
        public let identity: BundleIdentity
        /// SHA-256 of its canonical tar.
        public let contentSha256: SHA256Digest
        /// Sum of its files' sizes in bytes.
        public let installedSize: Int
        /// Number of its files.
        public let fileCount: Int
        /// When it was installed.
        public let installedAt: Timestamp

        /// Its version.
        public var version: SemanticVersion { identity.version }
        /// The shells that it is for.
        public var shells: ShellRange { identity.shells }

        /// States what to remember.
        public init(
            identity: BundleIdentity, contentSha256: SHA256Digest, installedSize: Int, fileCount: Int,
            installedAt: Timestamp
        ) {
            self.identity = identity
            self.contentSha256 = contentSha256
            self.installedSize = installedSize
            self.fileCount = fileCount
            self.installedAt = installedAt
        }
    }

    /// A version that must not run on this device.
    public struct Block: Sendable, Equatable {
        /// The version.
        public let version: SemanticVersion
        /// Why, for people.
        public let reason: String
        /// Since when.
        public let since: Timestamp

        /// States a block.
        public init(version: SemanticVersion, reason: String, since: Timestamp) {
            self.version = version
            self.reason = reason
            self.since = since
        }
    }

    /// The application this store belongs to; nil until an installation named one.
    public private(set) var appId: String?
    /// The installed clients, oldest version first.
    public private(set) var entries: [Entry] = []
    /// The client that runs, or runs next.
    public private(set) var current = ClientName.embedded
    /// The client that ran before the current one; nil before the first change.
    public private(set) var previous: ClientName?
    /// The blocked versions.
    public private(set) var blocks: [Block] = []

    /// An empty store's ledger.
    public init() {}

    /// A ledger as it was written before.
    init(appId: String?, entries: [Entry], current: ClientName, previous: ClientName?, blocks: [Block]) {
        self.appId = appId
        self.entries = entries.sorted { $0.version < $1.version }
        self.current = current
        self.previous = previous
        self.blocks = blocks
    }

    /// What is remembered about `version`.
    public func entry(_ version: SemanticVersion) -> Entry? { entries.first { $0.version == version } }

    /// The block on `version`, if there is one.
    public func block(on version: SemanticVersion) -> Block? { blocks.first { $0.version == version } }

    /// Binds the store to an application for good.
    public mutating func bind(appId: String) { self.appId = appId }

    /// Remembers an installed client; one entry a version.
    public mutating func record(_ entry: Entry) {
        entries.removeAll { $0.version == entry.version }
        entries.append(entry)
        entries.sort { $0.version < $1.version }
    }

    /// Makes `name` the client that runs; the one before becomes the previous.
    public mutating func select(_ name: ClientName) {
        if name == current { return }
        previous = current
        current = name
    }

    /// Forgets an installed client. One that was current is followed by the seed.
    public mutating func forget(_ version: SemanticVersion) {
        entries.removeAll { $0.version == version }
        if current == .installed(version) { current = .embedded }
        if previous == .installed(version) { previous = nil }
    }

    /// Keeps `version` from running on this device.
    public mutating func block(_ version: SemanticVersion, reason: String, since: Timestamp) {
        blocks.removeAll { $0.version == version }
        blocks.append(Block(version: version, reason: reason, since: since))
        blocks.sort { $0.version < $1.version }
    }
}
