import BundleTransport
import Testing

@testable import ArchiveSource

@Suite struct ChannelSubscriptionTests {
    static let targets: [(String, ChannelSubscription?)] = [
        ("/push", .all), ("/push?", .all), ("/push?x=1&y", .all), ("/push?channels=beta", .all),
        ("/push?channel", .all),
        ("/push?channel=beta", .only("beta")), ("/push?x=1&channel=a.b-c_0&y=2", .only("a.b-c_0")),
        ("/push?channel=", nil), ("/push?channel=Beta", nil), ("/push?channel=.beta", nil), ("/push?channel=a%62", nil),
        ("/push?channel=../x", nil), ("/push?channel=a&channel=a", nil), ("/push?channel=a&channel=b", nil),
        ("/push?x?channel=beta", .all), ("/push?channel=" + String(repeating: "a", count: 65), nil),
    ]

    @Test(arguments: targets)
    func `parses the channel in the query of a target`(target: String, expected: ChannelSubscription?) {
        #expect(ChannelSubscription(target: target) == expected)
    }

    @Test(arguments: [
        ("ws://h/push", "ws://h/push?channel=beta"),
        ("wss://h:8443/push?site=7", "wss://h:8443/push?site=7&channel=beta"),
        ("ws://h", "ws://h/?channel=beta"), ("ws://h/push?channel=stable", "ws://h/push?channel=stable"),
    ])
    func `adds the channel to the query of a URL`(url: String, expected: String) throws {
        let url = try SocketURL(parsing: url)
        #expect(try ChannelSubscription.url(url, for: "beta").description == expected)
    }

    @Test func `rejects a URL that becomes too long`() throws {
        let long = try SocketURL(parsing: "ws://h/" + String(repeating: "a", count: 2035))
        #expect(throws: TransportError.self) { try ChannelSubscription.url(long, for: "beta") }
    }
}
