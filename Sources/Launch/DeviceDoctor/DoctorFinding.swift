/// What was found out about one side of a device.
package struct DoctorFinding: Sendable, Equatable {
    /// What is looked at. Each has a heading in `Guide/reference/doctor.md`.
    package enum Code: String, Sendable, CaseIterable {
        /// This machine's clock, against signed documents and the feed's server.
        case clock
        /// The store's folder: owner, permissions, whether it is one.
        case storeFolder
        /// The folders above the store: who can take it away.
        case storeParents
        /// The room for the next client.
        case diskSpace
        /// How many more files the file system takes.
        case inodes
        /// Whether files can have two names, as serving roots need.
        case links
        /// Whether an installation can be put in its place by one rename.
        case rename
        /// What the store remembers, and whether its clients are there.
        case ledger
        /// Whether there is anything to show.
        case clients
        /// Who may see it: a lock, or a session that has ended.
        case session
        /// Whether a browser shows the page that it should.
        case screen
        /// What runs that were stopped have left.
        case leftovers
        /// The keys or the trust root.
        case trust
        /// What the source offers: signatures, sequence, expiry.
        case document
        /// Whether what the source offers is for this device.
        case offer
        /// Whether what the source offers arrives.
        case wanted
        /// The id that rollouts draw this device by.
        case deviceId
        /// What stands between this machine and the feed.
        case proxy
        /// The address of the feed's name.
        case dns
        /// The connection to the feed.
        case tcp
        /// The encrypted and trusted connection.
        case tls
        /// The answer of the feed's server.
        case http
        /// The port of `serve`.
        case port
        /// Whether commands can be held to what they need.
        case landlock
    }

    /// How bad it is.
    package enum Severity: String, Sendable, CaseIterable, Comparable {
        /// As it should be.
        case ok
        /// The device works, and should be looked at.
        case warning
        /// The device does not update itself, or does not show its client.
        case failure

        /// Better is less.
        package static func < (left: Severity, right: Severity) -> Bool {
            allCases.firstIndex(of: left) ?? 0 < allCases.firstIndex(of: right) ?? 0
        }
    }

    /// What was looked at.
    package let code: Code
    /// How bad it is.
    package let severity: Severity
    /// What was looked at, by its name: a path, an address, a port.
    package let subject: String
    /// What was found, in a sentence.
    package let message: String
    /// What to do; nil where nothing is to be done.
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
