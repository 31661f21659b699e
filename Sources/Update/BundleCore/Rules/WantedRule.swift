package import BundleValues

/// Whether a device lacks the offer that an update failed to bring. A pure rule.
package enum WantedRule {
    /// What the failure means.
    package enum Answer: Sendable, Equatable {
        /// The device may have the version, and does not get it.
        case wanted
        /// The device may not have the version, or has it.
        case notForDevice
    }

    /// Refusals of what this device may not have: a Meteor bundle for other plugins is for another shell.
    private static let refusals: Set<FailureCode> = [.unsuitableBundle, .appMismatch]

    /// Judges an update that ended with `failure` after the rules had answered with `verdict`.
    package static func judge(_ verdict: Decision.Verdict, after failure: UpdateFailure) -> Answer {
        switch verdict {
        case .install: refusals.contains(failure.code) ? .notForDevice : .wanted
        // A hold that cannot be fetched, or a signature that is not accepted, keeps a release from a device that may have it.
        case .unsuitable(let refusal): refusals.contains(refusal.code) ? .notForDevice : .wanted
        case .choose, .upToDate, .incompatible, .blocked, .withdrawn, .notInRollout, .wrongApp: .notForDevice
        }
    }
}
