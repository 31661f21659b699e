public import BundleCore

/// The values of a channel document (CONTRACT section 4), whoever vouches for them.
public struct ChannelDocument: Sendable {
    /// A release with what the channel says about it.
    public struct Release: Sendable {
        /// The devices that may have it, in thousandths.
        public static let everybody = 1000

        /// The release's own manifest.
        public let manifest: UnverifiedManifest
        /// 0...1000: the devices that may have it, in thousandths.
        public var rollout: Int
        /// What draws the devices of this release; empty where absent.
        public var salt: String
        /// Whether no further device takes it.
        public var isPaused: Bool

        /// States a release.
        public init(_ manifest: UnverifiedManifest, rollout: Int = everybody, salt: String = "", isPaused: Bool = false)
        {
            self.manifest = manifest
            self.rollout = rollout
            self.salt = salt
            self.isPaused = isPaused
        }

        /// Its version, as claimed.
        public var version: SemanticVersion { manifest.claims.version }
    }

    /// How often devices ask.
    public struct Poll: Sendable, Equatable {
        /// Seconds between two checks.
        public let interval: Int
        /// At most as many seconds more, drawn anew each time.
        public let jitter: Int

        /// States an interval.
        public init(interval: Int, jitter: Int) {
            self.interval = interval
            self.jitter = jitter
        }
    }

    /// The application; nil where it names none.
    public var appId: String?
    /// The channel's name.
    public var channel: String
    /// Grows with every change; 1 or more.
    public var sequence: Int
    /// When it was signed.
    public var issuedAt: Timestamp
    /// From then on devices install nothing by it.
    public var expires: Timestamp
    /// What devices may run, each version once, in the document's order.
    public var releases: [Release]
    /// What devices must not run.
    public var revoked: [FeedMemory.Revocation]
    /// Every version below it must not run; nil for no floor.
    public var minimumVersion: SemanticVersion?
    /// How often devices ask; nil where it does not say.
    public var poll: Poll?
    /// Members that this version does not know, kept when the document is written again.
    var others: JSONObject

    /// States a document without releases.
    public init(appId: String?, channel: String, sequence: Int, issuedAt: Timestamp, expires: Timestamp) {
        self.appId = appId
        self.channel = channel
        self.sequence = sequence
        self.issuedAt = issuedAt
        self.expires = expires
        releases = []
        revoked = []
        others = [:]
    }
}

/// A channel document that nobody has vouched for.
public struct UnverifiedChannelDocument: Sendable {
    /// What it claims.
    public let claims: ChannelDocument
    /// Its bytes and signatures.
    public let envelope: SignedEnvelope
}
