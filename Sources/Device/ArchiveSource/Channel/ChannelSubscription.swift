package import BundleTransport
import BundleValues

/// The channels that a socket client subscribes to, from the query `?channel=stable` of its URL. A host that ignores
/// the query announces all channels.
package enum ChannelSubscription: Sendable, Equatable {
    /// All channels: the query does not name one.
    case all
    /// One channel.
    case only(String)

    private static let parameter = "channel="

    /// Parses the target of a request. Returns nil if it names two channels or an invalid name.
    package init?(target: String) {
        let query = target.split(separator: "?", maxSplits: 1).dropFirst().first ?? ""
        let names = query.split(separator: "&").filter { $0.hasPrefix(Self.parameter) }
            .map { String($0.dropFirst(Self.parameter.count)) }
        switch names.count {
        case 0: self = .all
        case 1 where ChannelFileName.isName(names[0]): self = .only(names[0])
        default: return nil
        }
    }

    /// The channel; nil for all.
    package var channel: String? {
        switch self {
        case .all: nil
        case .only(let channel): channel
        }
    }

    /// Returns `url` with `channel` in its query, or `url` itself if it names a channel. Throws `TransportError` if the
    /// result is too long.
    package static func url(_ url: SocketURL, for channel: String) throws(TransportError) -> SocketURL {
        guard Self(target: url.target) == .all else { return url }
        let mark = url.target.contains("?") ? "&" : "?"
        return try SocketURL(parsing: "\(url.start)\(mark)\(parameter)\(channel)")
    }
}
