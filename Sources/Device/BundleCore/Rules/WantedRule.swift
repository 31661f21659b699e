package import BundleValues

/// Decides whether a device lacks an offer after an update failed.
package enum WantedRule {
    /// The meaning of the failure.
    package enum Judgement: Sendable, Equatable {
        /// The device may have the version but did not receive it.
        case wanted
        /// The device may not have the version, or has it already.
        case notForDevice
    }

    /// The codes of versions that this device may not have. A Meteor bundle for other plugins is for another shell.
    private static let refusals: Set<FailureCode> = [.unsuitableBundle, .appMismatch]

    /// Returns the answer for an update that ended with `failure` after `verdict`.
    package static func judge(_ verdict: Decision.Verdict, after failure: UpdateFailure) -> Judgement {
        switch verdict {
        case .install: refusals.contains(failure.code) ? .notForDevice : .wanted
        // A missing hold or an unaccepted signature withholds a release from a device that may have it.
        case .unsuitable(let refusal): refusals.contains(refusal.code) ? .notForDevice : .wanted
        case .choose, .upToDate, .incompatible, .blocked, .withdrawn, .notInRollout, .wrongApp: .notForDevice
        }
    }
}
