/// One finding about a device.
package struct DoctorFinding: Sendable, Equatable {
    /// The subject of a finding. Each has a heading in `Guide/reference/doctor.md`.
    package enum Code: String, Sendable, CaseIterable {
        /// The clock of this machine, compared with signed documents and the feed's server.
        case clock
        /// The folder of the store: its owner, its permissions, and whether it is a store.
        case storeFolder
        /// The folders above the store, and which users can replace it.
        case storeParents
        /// The free space for the next client.
        case diskSpace
        /// The number of files that the file system can still store.
        case inodes
        /// Hard links, which serving roots need.
        case links
        /// The atomic rename of an installation.
        case rename
        /// The ledger, and whether its clients exist.
        case ledger
        /// Whether there is a client to show.
        case clients
        /// Whether this device grants the origins that the next client declares.
        case origins
        /// The users who may see it: a lock, or a session that has ended.
        case session
        /// Whether a browser shows the expected page.
        case screen
        /// The remains of interrupted runs.
        case leftovers
        case trust
        /// Whether the device has a source of updates.
        case source
        /// The document of the source: its signatures, sequence and expiry.
        case document
        /// Whether the offered release is for this device.
        case offer
        /// Whether offered releases arrive.
        case wanted
        /// The ID that places this device in rollouts.
        case deviceId
        /// The proxy between this machine and the feed.
        case proxy
        /// The address of the feed's host name.
        case dns
        case tcp
        /// The encrypted and trusted connection.
        case tls
        /// The response of the feed's server.
        case http
        case port
        /// Whether the kernel supports confining commands.
        case landlock
    }

    /// The severity of a finding.
    package enum Severity: String, Sendable, CaseIterable, Comparable {
        case ok
        /// The device works, but an operator should act.
        case warning
        /// The device does not update itself, or does not show its client.
        case failure

        /// Orders findings from good to bad.
        package static func < (left: Severity, right: Severity) -> Bool {
            allCases.firstIndex(of: left) ?? 0 < allCases.firstIndex(of: right) ?? 0
        }
    }

    package let code: Code
    package let severity: Severity
    /// The name of the subject: a path, an address, or a port.
    package let subject: String
    /// The finding, as a sentence.
    package let message: String
    /// The remedy; nil if nothing has to be done.
    package let advice: String?

    static func ok(_ code: Code, _ subject: String, _ message: String) -> DoctorFinding {
        DoctorFinding(code: code, severity: .ok, subject: subject, message: message, advice: nil)
    }

    static func warning(_ code: Code, _ subject: String, _ message: String, _ advice: String) -> DoctorFinding {
        DoctorFinding(code: code, severity: .warning, subject: subject, message: message, advice: advice)
    }

    static func failure(_ code: Code, _ subject: String, _ message: String, _ advice: String) -> DoctorFinding {
        DoctorFinding(code: code, severity: .failure, subject: subject, message: message, advice: advice)
    }
}
