import BundleValues

/// The addresses that have to answer before the start of a client is confirmed.
package enum RequiredEndpoints {
    /// The largest number of addresses of a release.
    package static let most = 8
    private static let maximumBytes = 500

    /// Returns the reason why a release cannot have these addresses; nil if it can.
    package static func refusal(_ addresses: [String]) -> String? {
        if addresses.isEmpty || addresses.count > most { return "1 to \(most) addresses are allowed" }
        return addresses.first { !isAddress($0) }.map {
            "\(UntrustedName.display($0)) is neither a path such as /api/health nor an http or https URL"
        }
    }

    private static func isAddress(_ text: String) -> Bool {
        if text.utf8.count > maximumBytes || text.utf8.contains(where: { $0 <= 0x20 || $0 >= 0x7F }) { return false }
        if text.hasPrefix("/") { return !text.hasPrefix("//") }
        guard let url = try? FetchURL(parsing: text) else { return false }
        return url.scheme == .https || url.scheme == .http
    }

    /// The last answer of an address.
    package enum EndpointAnswer: Sendable, Equatable {
        /// The status of the response.
        case status(Int)
        /// There was no response, for this reason.
        case unreachable(String)
    }

    /// The decision on a client whose page has confirmed its start.
    package enum EndpointDecision: Sendable, Equatable {
        case passed
        case failed(String)
        /// The address is requested again.
        case waiting
    }

    /// Decides by the last `answers`. After `isOver`, an address without a good answer fails the client, unless the machine has no network.
    package static func decide(
        _ addresses: [String], answers: [String: EndpointAnswer], isOver: Bool, hasNetwork: Bool
    ) -> EndpointDecision {
        var waits = false
        for address in addresses {
            switch answers[address] {
            case .status(200..<400)?: continue
            case .status(let status)? where isOver: return .failed("\(address) answered with status \(status)")
            case .unreachable(let reason)? where isOver && hasNetwork:
                return .failed("\(address) cannot be reached: \(reason)")
            case nil where isOver && hasNetwork: return .failed("\(address) has not answered")
            case .status, .unreachable, nil: waits = true
            }
        }
        return waits ? .waiting : .passed
    }
}
