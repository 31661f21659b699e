import BundleValues
import BundleTransport
import Testing

@testable import MeteorSource

@Suite("DDPURL") struct DDPURLTests {
    @Test(
        arguments: [
            ("http://h", nil, "ws://h/websocket"),
            ("https://h/", nil, "wss://h/websocket"),
            ("HTTPS://H:443/", nil, "wss://h/websocket"),
            ("http://h:443/", nil, "ws://h:443/websocket"),
            ("https://h/app", nil, "wss://h/app/websocket"),
            ("https://h/app/", "", "wss://h/app/websocket"),
            ("https://h/a/b//", nil, "wss://h/a/b/websocket"),
            ("https://h/app?x=1#y", nil, "wss://h/app/websocket"),
            ("http://[::1]:3000/", nil, "ws://[::1]:3000/websocket"),
            ("https://h/", "https://ddp.h/", "wss://ddp.h/websocket"),
            ("https://h/app", "https://ddp.h:8443/other", "wss://ddp.h:8443/other/websocket"),
            ("http://h/", "wss://ddp.h", "wss://ddp.h/websocket"),
            ("http://h/", "ws://ddp.h/websocket", "ws://ddp.h/websocket"),
            ("https://h/app", "/", "wss://h/websocket"),
            ("https://h/app", "/live/", "wss://h/live/websocket"),
            (nil, "http://ddp.h", "ws://ddp.h/websocket"),
        ] as [(String?, String?, String)])
    func `uses the stated URL, or otherwise that of the server`(root: String?, ddp: String?, expected: String) throws {
        #expect(try DDPURL(RuntimeConfig(rootURL: root, ddpURL: ddp)).description == expected)
    }

    @Test(
        arguments: [
            (nil, nil, "neither"), ("", "", "neither"), ("ftp://h/", nil, "scheme"),
            ("file:///x", nil, "http or https"),
            ("https://h/", "http://h/", "MOBILE_DDP_URL"), ("https://h/", "ws://h/", "MOBILE_DDP_URL"),
            ("https://h/", "//h/", "not absolute"), ("https://h/", "h:3000", "scheme"),
            ("https://h/", "https://u:p@h/", "password"), (nil, "/", "not absolute"),
            ("https://h/", "ddp+sockjs://h/", "scheme"),
        ] as [(String?, String?, String)])
    func `rejects an invalid URL with its reason`(root: String?, ddp: String?, reason: String) {
        let error = #expect(throws: FetchError.self) { try DDPURL(RuntimeConfig(rootURL: root, ddpURL: ddp)) }
        #expect(error?.description.contains(reason) == true, "\(String(describing: error))")
    }

    @Test func `splits the URL for a transport`() throws {
        let socket = try DDPURL(parsing: "wss://Host/sub").socket
        #expect((socket.isSecure, socket.host, socket.port, socket.target) == (true, "host", 443, "/sub/websocket"))
    }
}
