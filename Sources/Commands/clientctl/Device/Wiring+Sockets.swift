import ArchiveSource
import ArgumentParser
import BundleCore
import BundleFetch
import BundleShell
import ClientServer
import BundleTransport
import BundleValues

extension Wiring {
    /// Returns the push connections of `serve`: to the host at `push`, if set, and to the Meteor server.
    static func listening(
        _ options: UpdateOptions, push: String?, environment: Environment
    ) throws -> Listening {
        let (feed, meteor) = try places(options)
        let wanted = try SourceOrder.chosen(options.sources)?.names ?? SourceName.allCases
        let host = try push.map { text in
            guard let feed, wanted.contains(.archive) else {
                throw ValidationError("--push needs a feed: add --channel or --manifest.")
            }
            return try self.host(text, of: feed, options: options)
        }
        let server = try wanted.contains(.meteor) ? meteor.map { try self.server($0, options: options) } : nil
        let isPolling = feed != nil || meteor != nil
        return Listening(
            host: host, server: server, network: isPolling ? NetworkWatch() : nil, environment: environment)
    }

    private static func host(_ text: String, of feed: FeedAddress, options: UpdateOptions) throws -> Listening.Host {
        let url = try FlagValue.parsed(text, of: "push") { try SocketURL(parsing: $0) }
        let store = try FlagValue.required(options.store, of: "store")
        let connector = try connector(
            options.network, for: feed.url, store: store, maximumMessage: Listening.hostMessage)
        return try Listening.Host(url: url, of: feed, store: store, connector: connector)
    }

    private static func server(_ text: String, options: UpdateOptions) throws -> Listening.PushedServer {
        let url = try FlagValue.url(text, of: "meteor")
        let store = try FlagValue.required(options.store, of: "store")
        return Listening.PushedServer(
            rootURL: url,
            connector: try connector(options.network, for: url, store: store, maximumMessage: Listening.serverMessage))
    }

    private static func connector(
        _ network: NetworkOptions, for url: FetchURL, store: String, maximumMessage: Int
    ) throws -> any TransportConnector {
        var options = try network.fetching()
        options.headers = try headers(network, for: url)
        return try Listening.connector(
            options, for: url, sessions: sessions(store), named: try credential(network, for: url),
            maximumMessage: maximumMessage)
    }
}
