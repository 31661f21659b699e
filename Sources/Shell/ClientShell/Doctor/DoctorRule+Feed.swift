import BundleFetch
import BundleCore
import BundleValues

extension DoctorRule {
    static func source(_ reading: DoctorReading) -> DoctorFinding? {
        guard reading.feeds.isEmpty else { return nil }
        return .warning(
            .source, reading.store.path,
            "No feed is named, so the network was not checked, and a device with these settings does not update itself."
        )
    }

    static func feed(_ feed: DoctorReading.FeedReading, _ reading: DoctorReading) -> [DoctorFinding] {
        [proxy(feed)].compactMap(\.self) + way(feed)
            + [document(feed, reading), offer(feed, reading)].compactMap(\.self)
    }

    private static let networkCodes: Set<FailureCode> = [.networkUnavailable, .httpStatus, .resourcesExhausted]

    // MARK: Connection

    private static func proxy(_ feed: DoctorReading.FeedReading) -> DoctorFinding? {
        guard let proxy = feed.proxy else { return nil }
        let name = "\(proxy.address) (\(proxy.source))"
        switch feed.end {
        case .proxyRefused(let reason)?, .unresolved(let reason)?, .unconnected(let reason)?:
            return .failure(
                .proxy, proxy.address, "The proxy \(name) does not let \(feed.url.display) through: \(reason).")
        default: return .ok(.proxy, proxy.address, "Requests to \(feed.url.display) use the proxy \(name).")
        }
    }

    /// Returns the stages that the test request passed, and the one that failed.
    private static func way(_ feed: DoctorReading.FeedReading) -> [DoctorFinding] {
        guard let end = feed.end else { return [] }
        let (url, host) = (feed.url.display, feed.url.origin.host)
        switch end {
        case .unable(let error):
            return [.failure(.http, url, "No request can be made.", "\(error)")]
        // The finding about the proxy has the reason.
        case .proxyRefused: return []
        case .unresolved where feed.proxy != nil, .unconnected where feed.proxy != nil: return []
        case .unresolved(let reason):
            return [
                .failure(
                    .dns, host, "The name \(host) has no address: \(reason).",
                    "Check the address, the network and the name servers (`resolvectl query \(host)`).")
            ]
        case .unconnected(let reason):
            return passed(feed, [.dns]) + [.failure(.tcp, url, "No server responds at \(url): \(reason).")]
        case .untrusted(let reason):
            let advice =
                "Check the clock first, then the certificate. Name a private certificate authority with --ca-file."
            return passed(feed, [.dns, .tcp])
                + [.failure(.tls, url, "The connection to \(url) is not trusted: \(reason).", advice)]
        case .silent(let reason):
            let advice = "Check the server, and the network in between, for example for a proxy that was not named."
            return passed(feed, [.dns, .tcp, .tls])
                + [.failure(.http, url, "\(url) does not respond: \(reason).", advice)]
        case .answered(let status, _): return passed(feed, [.dns, .tcp, .tls]) + [answer(status, feed)]
        }
    }

    /// Returns the findings about passed stages. Behind a proxy, the name and the connection of the proxy are decisive.
    private static func passed(_ feed: DoctorReading.FeedReading, _ stages: [FindingCode]) -> [DoctorFinding] {
        let (url, host) = (feed.url.display, feed.url.origin.host)
        return stages.compactMap { stage in
            switch stage {
            case .dns where feed.proxy == nil && !isAddress(host): .ok(.dns, host, "The name \(host) has an address.")
            case .tcp where feed.proxy == nil: .ok(.tcp, url, "The server of \(url) can be reached.")
            case .tls where feed.url.scheme == .https: .ok(.tls, url, "The certificate of \(url) is trusted.")
            default: nil
            }
        }
    }

    private static func isAddress(_ host: String) -> Bool {
        host.utf8.contains(UInt8(ascii: ":")) || host.utf8.allSatisfy { $0.isASCIIDigit || $0 == UInt8(ascii: ".") }
    }

    /// Returns the finding about the server's response. The check of the document, which sends the token, takes
    /// precedence.
    private static func answer(_ status: Int, _ feed: DoctorReading.FeedReading) -> DoctorFinding {
        let url = feed.url.display
        let advice = "Check the address, the token and the server. The log of the server has details."
        switch feed.check {
        case .late:
            return .failure(
                .http, url, "The server of \(url) responds too slowly.", "Check the network and the server.")
        case .refused(let failure) where networkCodes.contains(failure.code):
            return .failure(.http, failure.subject, failure.message, advice)
        case .notDone where status == 401 || status == 403:
            return .warning(
                .http, url, "\(url) responds with \(status) to requests without a token.",
                "Name all options that `install` has.")
        case .notDone where status >= 400:
            return .failure(.http, url, "\(url) responds with \(status).", advice)
        case .verified, .refused, .notDone: return .ok(.http, url, "The server of \(url) responds.")
        }
    }

    // MARK: Document

    private static let documentNotice = 3 * 86_400

    private static func document(_ feed: DoctorReading.FeedReading, _ reading: DoctorReading) -> DoctorFinding? {
        let url = feed.url.display
        switch feed.check {
        case .late where feed.end == nil:
            return .failure(.document, url, "\(url) could not be read in time.", "Check the disk that it is on.")
        case .late, .notDone: return nil
        case .refused(let failure):
            // Trust, the store and the network have findings of their own.
            let isElsewhere =
                failure.isAboutTrustRoot || failure.code == .storeDamaged
                || failure.subject.hasPrefix(reading.store.path) || reading.trust == .unreadable(failure.message)
            if isElsewhere || feed.end != nil && networkCodes.contains(failure.code) { return nil }
            return .failure(
                .document, url, failure.message,
                "Devices accept nothing from it until this is corrected. `clientctl feed check` checks the feed itself."
            )
        case .verified(_, let offer) where offer?.version.source == .meteor:
            return .ok(.document, url, "The manifest of \(url) was read; hot code pushes are not signed.")
        case .verified(let memory, _):
            guard feed.isChannel, let channel = memory.followed else {
                return .ok(.document, url, "The offer of \(url) is verified.")
            }
            let left = channel.expires.secondsSinceEpoch - reading.clock.secondsSinceEpoch
            let found =
                "Channel \(channel.name) is verified: sequence \(channel.sequence), until \(channel.expires), for "
                + "\(words(max(0, left)))."
            return left < documentNotice
                ? .warning(.document, url, found, "The publisher has to sign it again: `clientctl channel renew`.")
                : .ok(.document, url, found)
        }
    }
}
