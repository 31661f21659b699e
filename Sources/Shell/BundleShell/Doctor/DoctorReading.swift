package import BundleCore
package import BundleDisk
package import BundleFetch
package import BundleValues

/// The measurements of a device. `DoctorRule` evaluates them.
package struct DoctorReading: Sendable {
    /// The present trust.
    package enum TrustReading: Sendable, Equatable {
        /// The keys or the root are unreadable, for this reason.
        case unreadable(String)
        /// The number of plain keys.
        case keys(Int)
        /// The newest known trust root.
        case root(version: Int, expires: Timestamp)
    }

    /// The result of a check of a source.
    package enum CheckReading: Sendable {
        /// The document is verified. This is what the store would record, and the decision on its offer.
        case verified(FeedMemory, OfferReading? = nil)
        /// The document was rejected or could not be downloaded.
        case refused(UpdateFailure)
        /// The check timed out.
        case late
        /// There were no keys to verify it with.
        case notDone
    }

    /// The offer of a source, and the decision on it.
    package struct OfferReading: Sendable, Equatable {
        package var version: ClientVersion
        /// The decision of `install` on the offer.
        package var verdict: Decision.Verdict

        /// Creates an offer.
        package init(_ version: ClientVersion, _ verdict: Decision.Verdict) {
            (self.version, self.verdict) = (version, verdict)
        }
    }

    /// A feed or a Meteor server.
    package struct FeedReading: Sendable {
        package var url: FetchURL
        /// Whether the address is of a channel file, which expires.
        package var isChannel: Bool
        /// The proxy of its requests; nil if there is none.
        package var proxy: ProxyChoice?
        /// The result of a test request; nil for a file.
        package var end: FeedProbe.End?
        /// The result of a check for updates.
        package var check: CheckReading

        /// Creates the measurements of a feed.
        package init(
            url: FetchURL, isChannel: Bool, proxy: ProxyChoice? = nil, end: FeedProbe.End? = nil,
            check: CheckReading = .notDone
        ) {
            (self.url, self.isChannel, self.proxy, self.end, self.check) = (url, isChannel, proxy, end, check)
        }

        /// The time that its server returned.
        var date: Timestamp? {
            guard case .answered(_, let date?)? = end else { return nil }
            return ServerDate.parse(date)
        }
    }

    /// The port of `serve`.
    package struct Port: Sendable, Equatable {
        /// The program that listens on the port.
        package enum Holder: Sendable, Equatable {
            /// No program.
            case free
            /// The `clientctl serve` of this store.
            case clientctl
            /// The `clientctl serve` of another store.
            case serve(store: String)
            /// Another program, as far as this user may see which.
            case other(String?)
            /// This user must not listen on the port, for this reason.
            case refused(DiskError)
        }

        package var number: Int
        /// Whether the operator named the port, so `serve` uses no other one.
        package var isFixed: Bool
        /// The program that listens on the port.
        package var holder: Holder

        /// Creates the measurements of a port.
        package init(number: Int, isFixed: Bool, holder: Holder) {
            (self.number, self.isFixed, self.holder) = (number, isFixed, holder)
        }
    }

    /// The clock of this machine.
    package var clock: Timestamp
    package var store: StoreLook
    /// The clients of the store; nil if they are unreadable.
    package var inventory: Inventory?
    /// The shell version that the operator names or that launched last; nil if it is unknown.
    package var shell: SemanticVersion?
    /// Whether the shell has a seed, as far as is known.
    package var hasSeed = false
    /// The page errors of each client since its last launch, by its name.
    package var complaints: [String: [String]] = [:]
    /// The declared origins of the installed client that is shown next; nil if they were not examined.
    package var origins: GrantedOrigins?
    /// The session; nil if there is no store.
    package var session: SessionStatus?
    /// The source of the ID for rollouts; nil if the device has none yet and the machine has no ID.
    package var deviceIdSource: FeedMemory.DeviceIdSource?
    /// The note about the screen that a server has left; nil if there is none.
    package var screen: ScreenNote?
    /// The trust; nil if none was named.
    package var trust: TrustReading?
    /// The sources of updates.
    package var feeds: [FeedReading] = []
    /// The port; nil if any free one is used.
    package var port: Port?
    /// Whether commands can be confined.
    package var confinement: Confinement.Support

    /// Creates the measurements of a device.
    package init(clock: Timestamp, store: StoreLook, confinement: Confinement.Support) {
        (self.clock, self.store, self.confinement) = (clock, store, confinement)
    }
}

/// The date of a server in the only format that HTTP servers still send (RFC 9110, section 5.6.7).
enum ServerDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Returns the time of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`; nil for another format.
    static func parse(_ text: String) -> Timestamp? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", words[1].utf8.count == 2,
            let month = months.firstIndex(of: String(words[2]))
        else { return nil }
        let number = month < 9 ? "0\(month + 1)" : "\(month + 1)"
        return try? Timestamp(parsing: "\(words[3])-\(number)-\(words[1])T\(words[4])Z")
    }
}

/// A proxy and its origin.
package struct ProxyChoice: Sendable, Equatable {
    /// The address without a password.
    package let address: String
    /// `--proxy`, or the name of the environment variable.
    package let source: String

    /// Creates a proxy.
    package init(address: String, source: String) { (self.address, self.source) = (address, source) }

    /// Returns the proxy that libcurl uses for `url`; nil for none. `given` is the value of `--proxy`, where an empty
    /// one disables proxies.
    package static func of(_ url: FetchURL, given: String?, environment: [String: String]) -> ProxyChoice? {
        if url.isFile || url.origin.isThisMachine { return nil }
        if isExcepted(url.origin.host, environment["no_proxy"] ?? environment["NO_PROXY"] ?? "") { return nil }
        if let given { return given.isEmpty ? nil : ProxyChoice(address: shown(given), source: "--proxy") }
        // HTTP_PROXY is not used: CGI programs of a web server receive it from the client.
        let names =
            (url.scheme == .https ? ["https_proxy", "HTTPS_PROXY"] : ["http_proxy"]) + ["all_proxy", "ALL_PROXY"]
        for name in names {
            guard let value = environment[name], !value.isEmpty else { continue }
            return ProxyChoice(address: shown(value), source: name)
        }
        return nil
    }

    private static func isExcepted(_ host: String, _ list: String) -> Bool {
        let host = host.lowercased()
        return list.split { $0 == "," || $0 == " " }.contains { entry in
            let name = entry.lowercased().drop { $0 == "." }
            return entry == "*" || host == name || host.hasSuffix(".\(name)")
        }
    }

    private static func shown(_ address: String) -> String {
        guard let at = address.lastIndex(of: "@") else { return UntrustedName.display(address) }
        let scheme = address.firstRange(of: "://").map { String(address[..<$0.upperBound]) } ?? ""
        return UntrustedName.display(scheme + address[address.index(after: at)...])
    }
}
