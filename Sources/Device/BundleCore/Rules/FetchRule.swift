import BundleFormats
import BundleValues

/// Decides whether a device downloads a release now. Pure.
package enum FetchRule {
    /// The kind of a download.
    package enum Load: Sendable, Equatable {
        case delta
        case archive
        /// The single files of a Meteor bundle.
        case files
    }

    /// The network of the device.
    package struct Link: Sendable, Equatable {
        /// A network whose bytes cost nothing.
        static let free = Link(isMetered: false, used: 0)

        /// Whether bytes cost money.
        package let isMetered: Bool
        /// The bytes that the device has used on metered links in this calendar month.
        package let used: Int
    }

    /// Returns the conditions that apply. A device without a client to show keeps only the rate, because no other condition is worth
    /// an empty screen.
    package static func conditions(_ policy: FetchPolicy, hasClient: Bool) -> FetchPolicy {
        if hasClient { return policy }
        var conditions = FetchPolicy()
        (conditions.rate, conditions.mirrors) = (policy.rate, policy.mirrors)
        return conditions
    }

    /// Returns the reason why a download of `bytes` waits under `policy`; nil if it may start. `bytes` is nil if the size is unknown.
    ///
    /// The reason that lasts longest comes first.
    package static func wait(
        _ policy: FetchPolicy, load: Load, bytes: Int?, on link: Link, at time: ActivationWindows.LocalTime
    ) -> FetchWait? {
        switch load {
        case .delta where !policy.deltas.allowsDelta, .archive where !policy.deltas.allowsArchive:
            return FetchWait(.deltas, deltaDetail(policy.deltas))
        default: break
        }
        if link.isMetered, let budget = policy.meteredBudget {
            let left = max(0, budget - link.used)
            guard let bytes, bytes <= left else {
                let needs = bytes.map { "needs \(ByteCount(bytes: $0))" } ?? "has an unknown size"
                return FetchWait(
                    .budget,
                    "the link is metered, and the download \(needs) of the \(ByteCount(bytes: left)) that are left of "
                        + "\(ByteCount(bytes: budget)) in this month")
            }
        }
        if policy.hours.contains(where: { !$0.isOpen(at: time) }) {
            let words = policy.hours.map(\.description).joined(separator: " and ")
            return FetchWait(
                .hours, "the hours for downloads are \(words)", minutes: minutesUntilOpen(policy.hours, at: time))
        }
        return nil
    }

    /// Returns the minutes until all lists of `hours` are open; nil if they never are.
    static func minutesUntilOpen(_ hours: [ActivationWindows], at time: ActivationWindows.LocalTime) -> Int? {
        (0..<7 * 1440).first { minutes in
            let later = time.adding(minutes: minutes)
            return hours.allSatisfy { $0.isOpen(at: later) }
        }
    }

    private static func deltaDetail(_ use: DeltaUse) -> String {
        switch use {
        case .only: "only deltas are downloaded, and no delta of this release fits this device"
        case .never: "no deltas are downloaded"
        case .prefer, .neither: "the device and its channel exclude each other's downloads (deltas)"
        }
    }
}
