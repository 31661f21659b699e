package import BundlePush
import BundleValues

/// Of which channels somebody who opens a socket wants to hear: the query of the address says so, `?channel=stable`, and nothing
/// has to be sent or read for it. A host that does not know the query tells of every channel.
package enum ChannelSubscription: Sendable, Equatable {
    /// Of every channel: none is named.
    case all
    /// Of this one.
    case only(String)

    private static let parameter = "channel="

    /// What the target of a request asks for; nil where it names two channels, or something that no channel is called.
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

    /// The channel, where it is one.
    package var channel: String? {
        switch self {
        case .all: nil
        case .only(let channel): channel
        }
    }

    /// `url` with `channel` in its query, or as it is where it names one already. Throws `TransportError` for one that grows too long.
    package static func url(_ url: SocketURL, for channel: String) throws(TransportError) -> SocketURL {
        guard Self(target: url.target) == .all else { return url }
        let mark = url.target.contains("?") ? "&" : "?"
        return try SocketURL(parsing: "\(url.start)\(mark)\(parameter)\(channel)")
    }
}
