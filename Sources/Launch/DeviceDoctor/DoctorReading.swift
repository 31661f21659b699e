package import BundleCore
package import BundleDisk
package import BundlePlatform
package import BundleValues
package import ShellBoot

/// All that was measured on a device; `DoctorRule` judges it.
package struct DoctorReading: Sendable {
    /// What is trusted at present.
    package enum Trust: Sendable, Equatable {
        /// It cannot be read, and why.
        case unreadable(String)
        /// Plain keys, so many.
        case keys(Int)
        /// The newest trust root that is known.
        case root(version: Int, expires: Timestamp)
    }

    /// What a look at a source came to.
    package enum Check: Sendable {
        /// It was verified; this would be remembered of it, and this is what the rules say about it.
        case verified(FeedMemory, Offer? = nil)
        /// It was refused, or did not come.
        case refused(UpdateFailure)
        /// It took too long.
        case late
        /// There was nothing to judge it by.
        case notDone
    }

    /// What a source offers, and what becomes of it here.
    package struct Offer: Sendable, Equatable {
        /// Its version.
        package var version: ClientVersion
        /// What `install` would do with it.
        package var verdict: Decision.Verdict

        /// States an offer.
        package init(_ version: ClientVersion, _ verdict: Decision.Verdict) {
            (self.version, self.verdict) = (version, verdict)
        }
    }

    /// A feed, or a Meteor server.
    package struct Feed: Sendable {
        /// Its address.
        package var url: FetchURL
        /// Whether it is a channel document, which expires.
        package var isChannel: Bool
        /// The proxy that it is asked through; nil for none.
        package var proxy: ProxyChoice?
        /// How far one question came; nil for a file.
        package var end: FeedProbe.End?
        /// What an update would get of it.
        package var check: Check

        /// States what was measured.
        package init(
            url: FetchURL, isChannel: Bool, proxy: ProxyChoice? = nil, end: FeedProbe.End? = nil,
            check: Check = .notDone
        ) {
            (self.url, self.isChannel, self.proxy, self.end, self.check) = (url, isChannel, proxy, end, check)
        }

        /// The time that its server gave.
        var date: Timestamp? {
            guard case .answered(_, let date?)? = end else { return nil }
            return ServerDate.parse(date)
        }
    }

    /// The port of `serve`.
    package struct Port: Sendable, Equatable {
        /// Who has it.
        package enum Holder: Sendable, Equatable {
            /// Nobody.
            case free
            /// A `clientctl serve`.
            case clientctl
            /// Another program.
            case other
            /// This user may not listen on it, and why.
            case refused(DiskError)
        }

        /// Its number.
        package var number: Int
        /// Whether it was named, so that `serve` takes no other.
        package var isFixed: Bool
        /// Who has it.
        package var holder: Holder

        /// States what was measured.
        package init(number: Int, isFixed: Bool, holder: Holder) {
            (self.number, self.isFixed, self.holder) = (number, isFixed, holder)
        }
    }

    /// This machine's clock.
    package var clock: Timestamp
    /// The store.
    package var store: StoreLook
    /// The clients of the store; nil where they cannot be read.
    package var inventory: Inventory?
    /// The shell that asks, or that launched last; nil where nobody knows it.
    package var shell: SemanticVersion?
    /// Whether the shell brings a client of its own, as far as is known.
    package var hasSeed = false
    /// What pages of each client said since it was launched last, by its name.
    package var complaints: [String: [String]] = [:]
    /// Who may see clients; nil where there is no store to ask.
    package var session: SessionStatus?
    /// Where the id for rollouts comes from; nil if the device does not have one yet and the machine has no id.
    package var deviceIdSource: FeedMemory.DeviceIdSource?
    /// What a server waits for; nil for nothing.
    package var screen: ScreenNote?
    /// What is trusted; nil where nothing was named.
    package var trust: Trust?
    /// What updates come from.
    package var feeds: [Feed] = []
    /// The port; nil for any that is free.
    package var port: Port?
    /// Whether commands can be held to what they need.
    package var confinement: Confinement.Support

    /// States what was measured.
    package init(clock: Timestamp, store: StoreLook, confinement: Confinement.Support) {
        (self.clock, self.store, self.confinement) = (clock, store, confinement)
    }
}

/// The time of a server, in the one form that HTTP still writes (RFC 9110, section 5.6.7).
enum ServerDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// The time in `Sun, 06 Nov 1994 08:49:37 GMT`; nil for any other form.
    static func parse(_ text: String) -> Timestamp? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", words[1].utf8.count == 2,
            let month = months.firstIndex(of: String(words[2]))
        else { return nil }
        let number = month < 9 ? "0\(month + 1)" : "\(month + 1)"
        return try? Timestamp(parsing: "\(words[3])-\(number)-\(words[1])T\(words[4])Z")
    }
}

/// A proxy, and who named it.
package struct ProxyChoice: Sendable, Equatable {
    /// Its address without a password.
    package let address: String
    /// `--proxy`, or the variable of the environment.
    package let source: String

    /// States a proxy.
    package init(address: String, source: String) { (self.address, self.source) = (address, source) }

    /// The proxy that libcurl takes for `url`; nil for none. `given` is that of `--proxy`, empty for none at all.
    package static func of(_ url: FetchURL, given: String?, environment: [String: String]) -> ProxyChoice? {
        if url.isFile || url.origin.isThisMachine { return nil }
        if isExcepted(url.origin.host, environment["no_proxy"] ?? environment["NO_PROXY"] ?? "") { return nil }
        if let given { return given.isEmpty ? nil : ProxyChoice(address: shown(given), source: "--proxy") }
        // Of the names in capitals HTTP_PROXY is none: a web server's programs get it from whoever asks.
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
