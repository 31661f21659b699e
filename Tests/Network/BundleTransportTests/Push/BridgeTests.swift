import BundleTransport
import BundleTestTraits
import Testing

@Suite("SyncBridge", .inTurn)
struct BridgeTests {
    private func url() throws -> SocketURL { try SocketURL(parsing: "wss://owner/push") }

    @Test func `reports the reason when the owner fails to open a socket`() async throws {
        let owner = SocketOwner(.fails)
        await #expect(throws: TransportError.unreachable("nobody is there")) {
            try await DelegateConnector(owner).connect(try url())
        }
        #expect(owner.closed == 1)
    }

    @Test func `closes the owner's socket when an attempt is cancelled`() async throws {
        let owner = SocketOwner(.hangs)
        let connector = DelegateConnector(owner)
        let url = try url()
        let attempt = Task { try await connector.connect(url) }
        while owner.given.isEmpty { await Task.yield() }
        attempt.cancel()
        await #expect(throws: CancellationError.self) { try await attempt.value }
        #expect(owner.closed == 1)
        // Later events of this socket are ignored.
        owner.given[0].onConnected()
        await owner.given[0].onTextMessage("late")
    }

    @Test func `fails to connect if the socket is closed while it opens`() async throws {
        let owner = SocketOwner(.hangs)
        let connector = DelegateConnector(owner)
        let url = try url()
        let attempt = Task { try await connector.connect(url) }
        while owner.given.isEmpty { await Task.yield() }
        owner.given[0].onDisconnected()
        await #expect(throws: TransportError.lost("it was closed before it was open")) { try await attempt.value }
    }

    @Test func `abandons the previous socket when it connects again`() async throws {
        let owner = SocketOwner()
        let connector = DelegateConnector(owner)
        var ends = owner.opened.makeAsyncIterator()
        let first = try await connector.connect(try url())
        _ = await ends.next()
        let second = try await connector.connect(try url())
        let far = try #require(await ends.next())
        // The first socket ended, and its events do not reach the second one.
        await #expect(throws: TransportError.lost("another socket replaced it")) {
            try await first.receive()
        }
        await #expect(throws: TransportError.isClosed) { try await first.sendText("to whom?") }
        await first.close()
        await owner.given[0].onTextMessage("from the first")
        owner.given[0].onError("of the first")
        #expect(owner.closed == 1)
        try await far.sendText("from the second")
        #expect(try await second.receive() == .text("from the second"))
        await second.close()
        #expect(owner.closed == 2)
    }

    @Test func `returns earlier messages before an error`() async throws {
        let owner = SocketOwner()
        let transport = try await DelegateConnector(owner).connect(try url())
        await owner.given[0].onTextMessage("before")
        owner.given[0].onError("the cable was cut")
        await owner.given[0].onTextMessage("after")
        #expect(try await transport.receive() == .text("before"))
        await #expect(throws: TransportError.lost("the cable was cut")) { try await transport.receive() }
        await #expect(throws: TransportError.lost("the cable was cut")) { try await transport.receive() }
    }

    @Test func `drops a message beyond the limit`() async throws {
        let owner = SocketOwner()
        var limits = DelegateConnector.Limits()
        limits.message = 8
        let transport = try await DelegateConnector(owner, limits: limits).connect(try url())
        await owner.given[0].onTextMessage("12345678")
        await owner.given[0].onBinaryMessage([UInt8](repeating: 0, count: 9))
        #expect(try await transport.receive() == .text("12345678"))
        await #expect(throws: TransportError.messageTooLarge(limit: 8)) { try await transport.receive() }
    }

    @Test func `makes an owner that reads ahead wait for space`() async throws {
        let owner = SocketOwner()
        let transport = try await DelegateConnector(owner).connect(try url())
        let bridge = owner.given[0]
        let reading = Task {
            for number in 0..<100 { await bridge.onTextMessage("\(number)") }
            bridge.onDisconnected()
        }
        for number in 0..<100 { #expect(try await transport.receive() == .text("\(number)")) }
        #expect(try await transport.receive() == nil)
        await reading.value
    }

    @Test func `releases a waiting owner when it closes`() async throws {
        let owner = SocketOwner()
        let transport = try await DelegateConnector(owner).connect(try url())
        let bridge = owner.given[0]
        let reading = Task {
            for number in 0..<100 { await bridge.onTextMessage("\(number)") }
        }
        #expect(try await transport.receive() == .text("0"))
        await transport.close()
        await reading.value
    }
}
