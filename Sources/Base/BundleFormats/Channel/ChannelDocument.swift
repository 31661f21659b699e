package import BundleSigning
package import BundleValues

/// The values of a channel document (Guide/reference/wire-formats.md), verified or not.
package struct ChannelDocument: Sendable {
    /// A release, and how the channel distributes it.
    package struct Release: Sendable {
        /// The thousandths of all devices.
        package static let allDevices = 1000

        /// The largest number of groups of a release.
        package static let mostGroups = 100

        /// The largest number of retries of a release. Each retry lets a device start a client again that failed there.
        package static let mostRetries = 8

        package let manifest: UnverifiedManifest
        /// The thousandths of devices that may install the release without a ramp, 0...1000. Callers use `share(at:)`.
        package var rollout: Int
        /// The scheduled percentages; nil to use `rollout`.
        package var ramp: Ramp?
        /// The groups whose devices may install the release regardless of the percentage, without duplicates.
        package var groups: [String] = []
        /// Whether only devices in `groups` may install the release.
        package var isOnlyForGroups = false
        /// Whether devices show the release at once, without waiting for an activation window.
        package var isUrgent = false
        /// The number of new attempts on devices that blocked the release after failed starts, at most `mostRetries`.
        package var retries = 0
        /// The salt of the bucket that each device gets for this release; empty if absent.
        package var salt: String
        /// Whether further devices do not install the release.
        package var isPaused: Bool

        package init(
            _ manifest: UnverifiedManifest, rollout: Int = allDevices, salt: String = "", isPaused: Bool = false
        ) {
            self.manifest = manifest
            self.rollout = rollout
            self.salt = salt
            self.isPaused = isPaused
        }

        package var version: SemanticVersion { manifest.claims.version }

        /// Returns the thousandths of devices that may install the release at the trusted time `time`.
        package func share(at time: Timestamp) -> Int { isOnlyForGroups ? 0 : ramp?.share(at: time) ?? rollout }
    }

    /// The interval between the checks of devices.
    package struct Poll: Sendable, Equatable {
        /// The seconds between two checks.
        package let interval: Int
        /// The largest random addition in seconds.
        package let jitter: Int

        package init(interval: Int, jitter: Int) {
            self.interval = interval
            self.jitter = jitter
        }
    }

    /// The application; nil if the document does not name one.
    package var appId: String?
    package var channel: String
    /// The number of this version of the document, 1 or more. It increases with every change.
    package var sequence: Int
    /// The SHA-256 of the signed bytes of the previous document; nil for the first one.
    package var previous: SHA256Digest?
    /// The time of the signature.
    package var issuedAt: Timestamp
    /// The time from which devices do not install by this document.
    package var expires: Timestamp
    /// The releases in the order of the document, without duplicate versions.
    package var releases: [Release]
    /// The recalled versions. A device keeps a recall that a later document omits.
    package var recalled: [FeedMemory.Recall]
    /// The versions that devices may run again. Only this removes a recall that a device has stored.
    package var reinstated: [FeedMemory.Reinstatement]
    /// The lowest version that may run; nil for no limit. A device keeps a higher one of an earlier document.
    package var minimumVersion: SemanticVersion?
    /// The minimum version up to which devices forget those of earlier documents; nil for none.
    package var undoneMinimum: SemanticVersion?
    /// The check interval; nil to use the device's own.
    package var poll: Poll?
    /// The largest `busyLimit`, in seconds.
    package static let longestBusyLimit = 3600
    /// The longest time that a busy page delays a change of the client, in seconds, 0 to 3600; nil to use the default.
    package var busyLimit: Int?
    /// The conditions for downloads.
    package var network = FetchPolicy()
    /// The unknown members, which are kept when the document is written again.
    var others: JSONObject

    /// Whether the highest release that is not recalled is urgent.
    package var isUrgent: Bool {
        let highest = releases.filter { release in !recalled.contains { $0.version == release.version } }
            .max { $0.version < $1.version }
        return highest.map { $0.isUrgent && !$0.isPaused } ?? false
    }

    /// Creates a document without releases.
    package init(appId: String?, channel: String, sequence: Int, issuedAt: Timestamp, expires: Timestamp) {
        self.appId = appId
        self.channel = channel
        self.sequence = sequence
        self.issuedAt = issuedAt
        self.expires = expires
        releases = []
        recalled = []
        reinstated = []
        others = [:]
    }
}

/// A channel document with unverified signatures.
package struct UnverifiedChannelDocument: Sendable {
    package let claims: ChannelDocument
    package let envelope: SignedEnvelope
}
