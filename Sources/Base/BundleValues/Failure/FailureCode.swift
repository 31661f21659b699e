/// The public error codes of clientctl and of its JSON output. Fleets count them, so a code never changes its meaning.
package enum FailureCode: String, Sendable, CaseIterable {
    case `internal`
    case networkUnavailable, httpStatus
    case signatureInvalid, keyUnknown
    case expired
    case rollbackAttempt
    case digestMismatch, sizeMismatch
    case archiveRejected
    case manifestMalformed
    case unsuitableBundle
    case versionMismatch
    case diskFull
    case permissionDenied
    case storeLocked
    case storeDamaged
    case resourcesExhausted
    case healthFailed
    case versionBlocked
    case incompatibleShell
    case appMismatch
    case deviceLocked, loginRequired
    case versionExists
    case overBudget
    case notPublic
    case hookFailed
    case usage
    case configInvalid

    /// The exit status of a command that fails with this code. Codes with the same remedy share a status.
    package var exitStatus: Int32 {
        switch self {
        case .internal: 1
        case .networkUnavailable: 10
        case .httpStatus: 11
        case .signatureInvalid, .keyUnknown: 20
        case .expired: 21
        case .rollbackAttempt: 22
        case .digestMismatch, .sizeMismatch: 23
        case .archiveRejected: 24
        case .manifestMalformed: 25
        case .unsuitableBundle: 26
        case .versionMismatch: 27
        case .diskFull: 30
        case .permissionDenied: 31
        case .storeLocked: 32
        case .storeDamaged: 33
        case .resourcesExhausted: 34
        case .healthFailed: 40
        case .versionBlocked: 41
        case .incompatibleShell: 42
        case .appMismatch: 43
        case .deviceLocked: 44
        case .loginRequired: 45
        case .versionExists: 51
        case .overBudget: 52
        case .notPublic: 53
        case .hookFailed: 54
        case .usage: 64
        case .configInvalid: 78
        }
    }
}
