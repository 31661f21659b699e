import ArchiveSource
import ArgumentParser
import BundleCore
import BundleFetch
import ClientShell
import BundleTransport
import BundleValues

extension Wiring {
    /// Returns the push connections of `serve`: to the host at `push`, if set, and to the Meteor server.
    static func listening(
        _ options: UpdateOptions, push: String?, _ settings: Settings, say: @escaping @Sendable (String) -> Void
    ) throws -> Listening {
        let (feed, meteor) = try places(options, settings)
        let wanted = try SourceOrder.chosen(options.sources, settings)?.names ?? SourceName.allCases
        let host = try settings.optional("push", push).map { text in
            guard let feed, wanted.contains(.archive) else {
                throw ValidationError("--push needs a feed: add --channel or --manifest.")
            }
            return try self.host(text, feed, options, settings)
        }
        let server = try wanted.contains(.meteor) ? meteor.map { try self.server($0, options, settings) } : nil
        let isPolling = feed != nil || meteor != nil
        return Listening(host: host, server: server, network: isPolling ? NetworkWatch() : nil, say: say)
    }

    private static func host(
        _ text: String, _ feed: FeedAddress, _ options: UpdateOptions, _ settings: Settings
    ) throws -> Listening.Host {
        let url = try settings.parsed("push", text) { try SocketURL(parsing: $0) }
        let store = try settings.required("store", options.store)
        let connector = try connector(
            options.network, for: feed.url, store: store, maximumMessage: Listening.hostMessage, settings)
        return try Listening.Host(url: url, of: feed, store: store, connector: connector)
    }

    private static func server(
        _ text: String, _ options: UpdateOptions, _ settings: Settings
    ) throws -> Listening.PushedServer {
        let url = try settings.parsed("meteor", text) { try FetchURL(parsing: $0) }
        let store = try settings.required("store", options.store)
        return Listening.PushedServer(
            rootURL: url,
            connector: try connector(
                options.network, for: url, store: store, maximumMessage: Listening.serverMessage, settings))
    }

    private static func connector(
        _ network: NetworkOptions, for url: FetchURL, store: String, maximumMessage: Int, _ settings: Settings
    ) throws -> any TransportConnector {
        var options = try network.fetching(settings)
        options.headers = try headers(network, for: url, settings)
        return try Listening.connector(
            options, for: url, sessions: sessions(store),
            named: try credential(network, for: url, settings),
            maximumMessage: maximumMessage)
    }
}
