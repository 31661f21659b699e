package import BundleCore
package import BundleSigning
package import BundleValues

/// The values of a channel document (CONTRACT section 4), whoever vouches for them.
package struct ChannelDocument: Sendable {
    /// A release with what the channel says about it.
    package struct Release: Sendable {
        /// The devices that may have it, in thousandths.
        package static let everybody = 1000

        /// The most groups that a release names.
        package static let mostGroups = 100

        /// The most retries of one release: each lets a device show a client once that failed there before.
        package static let mostRetries = 8

        /// The release's own manifest.
        package let manifest: UnverifiedManifest
        /// 0...1000: the devices that may have it, in thousandths, where no ramp says so. Ask `share(at:)`.
        package var rollout: Int
        /// Shares that grow by themselves; nil for `rollout`.
        package var ramp: Ramp?
        /// The groups whose devices may have it whatever the draw says, each once.
        package var groups: [String] = []
        /// Whether it is for `groups` alone.
        package var isOnlyForGroups = false
        /// Whether devices show it as soon as they have it, without waiting for a time of the day.
        package var isUrgent = false
        /// How often devices that have blocked it, because its starts failed, try it once more; at most `mostRetries`.
        package var retries = 0
        /// What draws the devices of this release; empty where absent.
        package var salt: String
        /// Whether no further device takes it.
        package var isPaused: Bool

        /// States a release.
        package init(
            _ manifest: UnverifiedManifest, rollout: Int = everybody, salt: String = "", isPaused: Bool = false
        ) {
            self.manifest = manifest
            self.rollout = rollout
            self.salt = salt
            self.isPaused = isPaused
        }

        /// Its version, as claimed.
        package var version: SemanticVersion { manifest.claims.version }

        /// The devices that the draw gives it at the trusted time `time`, in thousandths.
        package func share(at time: Timestamp) -> Int { isOnlyForGroups ? 0 : ramp?.share(at: time) ?? rollout }
    }

    /// How often devices ask.
    package struct Poll: Sendable, Equatable {
        /// Seconds between two checks.
        package let interval: Int
        /// At most as many seconds more, drawn anew each time.
        package let jitter: Int

        /// States an interval.
        package init(interval: Int, jitter: Int) {
            self.interval = interval
            self.jitter = jitter
        }
    }

    /// The application; nil where it names none.
    package var appId: String?
    /// The channel's name.
    package var channel: String
    /// Grows with every change; 1 or more.
    package var sequence: Int
    /// SHA-256 of the signed bytes of the document before it; nil for the first one.
    package var previous: SHA256Digest?
    /// When it was signed.
    package var issuedAt: Timestamp
    /// From then on devices install nothing by it.
    package var expires: Timestamp
    /// What devices may run, each version once, in the document's order.
    package var releases: [Release]
    /// What devices must not run. A device keeps a recall when a later document leaves it out.
    package var revoked: [FeedMemory.Revocation]
    /// The versions that devices may run again: the only way to take a recall back from a device that knows it.
    package var reinstated: [FeedMemory.Reinstatement]
    /// Every version below it must not run; nil for no floor.
    package var minimumVersion: SemanticVersion?
    /// How often devices ask; nil where it does not say.
    package var poll: Poll?
    /// How long a page that is busy keeps the client from being changed, in seconds, 0 to 3600; nil where it does not say.
    package var busyLimit: Int?
    /// Members that this version does not know, kept when the document is written again.
    var others: JSONObject

    /// Whether the highest release that may run is urgent.
    package var isUrgent: Bool {
        let highest = releases.filter { release in !revoked.contains { $0.version == release.version } }
            .max { $0.version < $1.version }
        return highest.map { $0.isUrgent && !$0.isPaused } ?? false
    }

    /// States a document without releases.
    package init(appId: String?, channel: String, sequence: Int, issuedAt: Timestamp, expires: Timestamp) {
        self.appId = appId
        self.channel = channel
        self.sequence = sequence
        self.issuedAt = issuedAt
        self.expires = expires
        releases = []
        revoked = []
        reinstated = []
        others = [:]
    }
}

/// A channel document that nobody has vouched for.
package struct UnverifiedChannelDocument: Sendable {
    /// What it claims.
    package let claims: ChannelDocument
    /// Its bytes and signatures.
    package let envelope: SignedEnvelope
}
