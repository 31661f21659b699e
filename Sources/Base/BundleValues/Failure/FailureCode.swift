/// The public error codes of clientctl and of its JSON output. Fleets count them, so a code never changes its meaning. Later versions
/// can add cases: a `switch` of another program needs a `default`.
public enum FailureCode: String, Sendable, CaseIterable {
    /// A fault in the program.
    case `internal`
    /// The server cannot be reached.
    case networkUnavailable
    /// The server refused the request.
    case httpStatus
    /// A signature is not valid.
    case signatureInvalid
    /// The device does not trust the key.
    case keyUnknown
    /// The channel file or the trust root has expired.
    case expired
    /// The feed is older than one that the device has accepted.
    case rollbackAttempt
    /// A download has other bytes than its manifest says.
    case digestMismatch
    /// A download has another size than its manifest says.
    case sizeMismatch
    /// The archive breaks a rule or a limit.
    case archiveRejected
    /// A document cannot be read.
    case manifestMalformed
    /// The Meteor bundle does not suit the device.
    case unsuitableBundle
    /// The files of a download are of several versions.
    case versionMismatch
    /// The disk is full.
    case diskFull
    /// Access to a file is denied.
    case permissionDenied
    /// Another process uses the store.
    case storeLocked
    /// The store is damaged.
    case storeDamaged
    /// Memory or open files have run out.
    case resourcesExhausted
    /// A client did not confirm its start.
    case healthFailed
    /// A client confirmed its start and shows nothing.
    case blankScreen
    /// The version is blocked on this device.
    case versionBlocked
    /// The client needs another version of the shell.
    case incompatibleShell
    /// The release is of another application.
    case appMismatch
    /// The device is locked.
    case deviceLocked
    /// The device needs a user who is logged in.
    case loginRequired
    /// The release is a program and the store has web clients, or the reverse.
    case wrongKind
    /// The program is for another processor.
    case wrongMachine
    /// The program does not start.
    case programUnusable
    /// The feed has another release of this version.
    case versionExists
    /// The channel has changed since the proposal.
    case proposalOutdated
    /// The proposal is for another feed.
    case proposalForeign
    /// The release is larger than its budget.
    case overBudget
    /// A file of the feed cannot be read by everybody.
    case notPublic
    /// A command that runs after a publication failed.
    case hookFailed
    /// The command line is wrong.
    case usage
    /// A setting cannot be used.
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
        case .healthFailed, .blankScreen: 40
        case .versionBlocked: 41
        case .incompatibleShell: 42
        case .appMismatch: 43
        case .deviceLocked: 44
        case .loginRequired: 45
        case .wrongKind: 46
        case .wrongMachine: 47
        case .programUnusable: 48
        case .versionExists: 51
        case .overBudget: 52
        case .notPublic: 53
        case .hookFailed: 54
        case .proposalOutdated, .proposalForeign: 55
        case .usage: 64
        case .configInvalid: 78
        }
    }

    /// The failure in a few words, for the row of a device.
    package var words: String {
        switch self {
        case .internal: "unexpected error"
        case .networkUnavailable: "feed not reachable"
        case .httpStatus: "the server refuses"
        case .signatureInvalid: "signature not valid"
        case .keyUnknown: "key not trusted"
        case .expired: "channel or trust root expired"
        case .rollbackAttempt: "feed older than before"
        case .digestMismatch: "download with other bytes"
        case .sizeMismatch: "download of another size"
        case .archiveRejected: "release refused"
        case .manifestMalformed: "document not readable"
        case .unsuitableBundle: "Meteor bundle not suitable"
        case .versionMismatch: "download of several versions"
        case .diskFull: "disk full"
        case .permissionDenied: "access to a file denied"
        case .storeLocked: "store in use"
        case .storeDamaged: "store damaged"
        case .resourcesExhausted: "no memory or open files left"
        case .healthFailed: "start not confirmed"
        case .blankScreen: "screen blank"
        case .versionBlocked: "version blocked"
        case .incompatibleShell: "shell not suitable"
        case .appMismatch: "another application"
        case .deviceLocked: "locked"
        case .loginRequired: "nobody logged in"
        case .wrongKind: "program or web client not expected"
        case .wrongMachine: "program for another processor"
        case .programUnusable: "program does not start"
        case .versionExists: "version exists"
        case .proposalOutdated: "proposal outdated"
        case .proposalForeign: "proposal of another feed"
        case .overBudget: "above its budget"
        case .notPublic: "not public"
        case .hookFailed: "command after publishing failed"
        case .usage: "wrong command line"
        case .configInvalid: "setting not usable"
        }
    }

    /// The remedy in one sentence, which the code's page in `Guide/reference/errors` contains, too.
    package var remedy: String {
        switch self {
        case .internal: "Check the disk (`dmesg`, `smartctl`)."
        case .networkUnavailable: "Open the address from the device, for example with `curl -v`."
        case .httpStatus: "Check `--manifest`, `--channel` or `--meteor`."
        case .signatureInvalid: "Give the right key or trust root with `--trust`."
        case .keyUnknown: "Give the device the new public key, or a trust root, with `--trust`."
        case .expired: "Sign the channel again: `clientctl channel renew`."
        case .rollbackAttempt:
            "Purge the cache, and serve `channels/` and `manifest.json` with `Cache-Control: no-cache`."
        case .digestMismatch: "Copy the archive to the server again."
        case .sizeMismatch: "Copy the archive to the server again."
        case .archiveRejected: "Publish the folder with `clientctl publish`."
        case .manifestMalformed: "Inspect the file: `clientctl inspect ADDRESS`."
        case .unsuitableBundle: "Update the shell together with its seed."
        case .versionMismatch:
            "If the error remains, finish the deployment, or use sticky sessions at the load balancer."
        case .diskFull: "Remove old clients: `clientctl prune --keep 1 --store STORE`."
        case .permissionDenied: "Run clientctl as the owner of the store."
        case .storeLocked: "Stop the other process."
        case .storeDamaged:
            "Repair it: `clientctl repair --store /var/lib/clientctl --channel https://updates.example.com/channels/stable.json`."
        case .resourcesExhausted: "Raise the limit: `MemoryMax=` and `LimitNOFILE=` of the unit, or `ulimit`."
        case .healthFailed: "Run `clientctl status --store STORE`, which shows the details of every failed start."
        case .blankScreen: "Open the version in a browser, and read the errors in its console."
        case .versionBlocked: "Publish a fixed release under a new version."
        case .incompatibleShell: "Update the shell."
        case .appMismatch: "Check `--app-id` and the address."
        case .deviceLocked: "Unlock the device: `clientctl screen unlock --store STORE`."
        case .loginRequired: "Log in: `clientctl session login --token-file FILE --store STORE`."
        case .wrongKind: "Use one store for web clients and another one for programs."
        case .wrongMachine: "Publish each architecture to a channel of its own."
        case .programUnusable: "Publish a program that starts on this device, under a new version."
        case .versionExists: "Publish under a new version."
        case .proposalOutdated: "Make the change again with `--propose`."
        case .proposalForeign: "Check `--feed`, `--channel` and `--trust`."
        case .overBudget: "Read the names and sizes in the message, and reduce the largest files."
        case .notPublic: "Read the address and the finding in the message."
        case .hookFailed: "Read the command's output on standard error, and fix the cause."
        case .usage: "Read the message: it names the flag."
        case .configInvalid: "Correct the setting that the message names."
        }
    }
}
