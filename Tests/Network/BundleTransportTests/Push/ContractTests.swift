import BundleTransport
import BundleTestTraits
import Testing

/// The rules of `SyncTransport`, for every implementation.
@Suite("SyncTransport", .inTurn)
struct ContractTests {
    @Test(arguments: TransportLink.allCases)
    func `delivers messages complete and in order in both directions`(_ link: TransportLink) async throws {
        let open = try await link.open()
        let long = String(repeating: "ü😀", count: 40_000)
        let messages: [TransportMessage] = [
            .text(""), .text("a\0b"), .binary([]), .text(long), .binary(Array(repeating: 7, count: 70_000)),
            .text("end"),
        ]
        for (sender, receiver) in [(open.near, open.far), (open.far, open.near)] {
            async let sending: Void = send(messages, over: sender)
            for message in messages { #expect(try await receiver.receive() == message) }
            try await sending
        }
        await open.near.close()
    }

    @Test(arguments: TransportLink.allCases)
    func `answers a ping although the peer does not receive`(_ link: TransportLink) async throws {
        let open = try await link.open()
        try await open.near.sendPing()
        #expect(try await open.near.receive() == .pong)
        await open.near.close()
    }

    @Test(arguments: TransportLink.allCases)
    func `delivers messages before the end`(_ link: TransportLink) async throws {
        let open = try await link.open()
        for number in 0..<10 { try await open.far.sendText("\(number)") }
        await open.far.close()
        for number in 0..<10 { #expect(try await open.near.receive() == .text("\(number)")) }
        #expect(try await open.near.receive() == nil)
        #expect(try await open.near.receive() == nil)
        await open.near.close()
    }

    @Test(arguments: TransportLink.allCases)
    func `rejects a message that is too large and keeps the connection`(_ link: TransportLink) async throws {
        let open = try await link.open()
        await #expect(throws: TransportError.messageTooLarge(limit: 1 << 20)) {
            try await open.near.sendBinary([UInt8](repeating: 0, count: 1 << 20 + 1))
        }
        await #expect(throws: TransportError.messageTooLarge(limit: 1 << 20)) {
            try await open.near.sendText(String(repeating: "a", count: (1 << 20) + 1))
        }
        try await open.near.sendText("small")
        #expect(try await open.far.receive() == .text("small"))
        await open.near.close()
    }

    @Test(arguments: TransportLink.allCases)
    func `loses no message when a receiving task is cancelled`(_ link: TransportLink) async throws {
        let open = try await link.open()
        for number in 0..<20 {
            let receiving = Task { try await open.near.receive() }
            receiving.cancel()
            try await open.far.sendText("\(number)")
            switch await receiving.result {
            case .success(let message): #expect(message == .text("\(number)"))
            case .failure(let error):
                #expect(error is CancellationError)
                #expect(try await open.near.receive() == .text("\(number)"))
            }
        }
        await open.near.close()
    }

    @Test(arguments: TransportLink.allCases)
    func `ends a receiving call and rejects sends after close`(_ link: TransportLink) async throws {
        let open = try await link.open()
        async let received = open.near.receive()
        await open.near.close()
        await open.near.close()
        #expect(try await received == nil)
        #expect(try await open.near.receive() == nil)
        await #expect(throws: TransportError.isClosed) { try await open.near.sendText("late") }
        await #expect(throws: TransportError.isClosed) { try await open.near.sendBinary([1]) }
        await #expect(throws: TransportError.isClosed) { try await open.near.sendPing() }
        #expect(try await open.far.receive() == nil)
    }

    @Test(arguments: TransportLink.allCases)
    func `slows the sender of a slow reader and delivers all messages`(_ link: TransportLink) async throws {
        let open = try await link.open()
        let total = 256
        let sent = Counter()
        await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for number in 0..<total {
                    try await open.near.sendBinary(
                        [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 64 << 10))
                    sent.increase()
                }
            }
            // Waits until the sender stops. A sender that is not slowed sends everything.
            var last = -1
            while sent.value != last {
                last = sent.value
                try? await Task.sleep(for: .milliseconds(500))
            }
            #expect(sent.value < total)
            for number in 0..<total {
                let message = try? await open.far.receive()
                #expect(message == .binary([UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 64 << 10)))
                if message == nil { break }
            }
        }
        await open.near.close()
    }

    @Test(arguments: TransportLink.allCases)
    func `a close ends a send to a peer that does not read`(_ link: TransportLink) async throws {
        let open = try await link.open()
        let sending = Task {
            while true { try await open.near.sendBinary([UInt8](repeating: 0, count: 256 << 10)) }
        }
        try await Task.sleep(for: .milliseconds(300))
        await open.near.close()
        await #expect(throws: TransportError.self) { try await sending.value }
    }

    @Test(arguments: TransportLink.allCases)
    func `ends a send soon when its task is cancelled`(_ link: TransportLink) async throws {
        let open = try await link.open()
        let sending = Task {
            while true { try await open.near.sendBinary([UInt8](repeating: 0, count: 256 << 10)) }
        }
        try await Task.sleep(for: .milliseconds(300))
        sending.cancel()
        await #expect(throws: CancellationError.self) { try await sending.value }
        await open.near.close()
    }

    private func send(_ messages: [TransportMessage], over transport: any SyncTransport) async throws {
        for message in messages {
            switch message {
            case .text(let text): try await transport.sendText(text)
            case .binary(let bytes): try await transport.sendBinary(bytes)
            case .pong: break
            }
        }
    }
}
