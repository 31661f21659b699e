import BundleTransport
import BundleTestTraits
import BundleTesting
import Testing

@Suite("SyncClient", .inTurn)
struct SyncClientTests {
    @Test func `sends the greeting and reports messages in order`() async throws {
        let connector = PairConnector()
        var configuration = try Listener.configuration()
        configuration.greeting = ["hello", "here"]
        let listener = try Listener(connector, configuration)
        var (ends, events) = (connector.opened.makeAsyncIterator(), listener.events.makeAsyncIterator())
        let far = try #require(await ends.next())
        #expect(try await far.receive() == .text("hello"))
        #expect(try await far.receive() == .text("here"))
        try await far.sendText("one")
        try await far.sendBinary([2])
        try await far.sendText("three")
        #expect(await events.next() == .connected)
        #expect(await events.next() == .text("one"))
        #expect(await events.next() == .binary([2]))
        #expect(await events.next() == .text("three"))
        await listener.stop()
        #expect(await events.next() == nil)
        #expect(far.isClosed)
    }

    @Test func `pings a silent peer and keeps the connection while it answers`() async throws {
        let connector = PairConnector()
        let listener = try Listener(connector)
        var (ends, events) = (connector.opened.makeAsyncIterator(), listener.events.makeAsyncIterator())
        let far = try #require(await ends.next())
        #expect(await events.next() == .connected)
        for round in 1...3 {
            await listener.clock.sleeper(until: .seconds(30 * round))
            listener.clock.advance(by: .seconds(30))
        }
        await listener.clock.sleeper(until: .seconds(120))
        try await far.sendText("still there")
        #expect(await events.next() == .text("still there"))
        #expect(connector.attempts == 1)
        await listener.stop()
    }

    @Test func `closes the connection of a peer that does not answer`() async throws {
        let connector = PairConnector([PairConnector.Answer](repeating: .opens(answersPings: false), count: 5))
        let listener = try Listener(connector)
        var (ends, events) = (connector.opened.makeAsyncIterator(), listener.events.makeAsyncIterator())
        // The timeout of the ping ends at the same time. If the ping is not sent yet, the test uses the next connection.
        let unasked = SyncEvent.lost(.timedOut(.sending), retry: .seconds(1))
        var (lost, start) = (Optional(unasked), 0)
        for _ in 0..<5 where lost == unasked {
            let far = try #require(await ends.next())
            #expect(await events.next() == .connected)
            await listener.clock.sleeper(until: .seconds(start + 30))
            listener.clock.advance(by: .seconds(30))
            await listener.clock.sleeper(until: .seconds(start + 45))
            #expect(!far.isClosed)
            listener.clock.advance(by: .seconds(15))
            lost = await events.next()
            #expect(far.isClosed)
            // The connection lasted long enough to count as successful, so the next wait starts at the first ceiling.
            await listener.clock.sleeper(until: .seconds(start + 46))
            listener.clock.advance(by: .seconds(1))
            start += 46
        }
        #expect(lost == .lost(.timedOut(.answering), retry: .seconds(1)))
        #expect(await ends.next() != nil)
        #expect(await events.next() == .connected)
        await listener.stop()
    }

    @Test func `accepts any message as a sign that the peer is alive`() async throws {
        let connector = PairConnector([.opens(answersPings: false)])
        let listener = try Listener(connector)
        var (ends, events) = (connector.opened.makeAsyncIterator(), listener.events.makeAsyncIterator())
        let far = try #require(await ends.next())
        #expect(await events.next() == .connected)
        await listener.clock.sleeper(until: .seconds(30))
        listener.clock.advance(by: .seconds(30))
        // The timeout of the ping ends at 45 too. The fifth sleeper waits for the answer, after the timeouts of the
        // connection and the greeting, the first wait, and the timeout of the ping.
        await listener.clock.sleeper(number: 5)
        try await far.sendText("here")
        #expect(await events.next() == .text("here"))
        while !far.isAwaited { try await Task.sleep(for: .milliseconds(1)) }
        listener.clock.advance(by: .seconds(15))
        // A message arrived at 30, so the next ping is at 60, and the connection is not closed at 45.
        await listener.clock.sleeper(until: .seconds(60))
        #expect(!far.isClosed)
        await listener.stop()
    }

    @Test func `reads nothing and keeps the connection while an event is processed`() async throws {
        let connector = PairConnector([.opens(answersPings: false)])
        let (working, gate) = (Promised<Void>(), Promised<Void>())
        let listener = try Listener(connector) { event in
            guard event == .text("0") else { return }
            working.settle(.success(()))
            try? await gate.value
        }
        var (ends, events) = (connector.opened.makeAsyncIterator(), listener.events.makeAsyncIterator())
        let far = try #require(await ends.next())
        let sent = Counter()
        let sending = Task {
            for number in 0..<100 {
                try await far.sendText("\(number)")
                sent.increase()
            }
        }
        #expect(await events.next() == .connected)
        try await working.value
        for round in 1...4 {
            await listener.clock.sleeper(until: .seconds(30 * round))
            listener.clock.advance(by: .seconds(30))
        }
        // One message is being processed, and the transport stores 16.
        while sent.value < 17 { await Task.yield() }
        for _ in 0..<1000 { await Task.yield() }
        #expect(sent.value == 17)
        #expect(!far.isClosed)
        gate.settle(.success(()))
        for number in 0..<100 { #expect(await events.next() == .text("\(number)")) }
        try await sending.value
        await listener.stop()
    }

    @Test func `increases the waits up to their ceiling while no connection opens`() async throws {
        let failures = [PairConnector.Answer](repeating: .fails(.unreachable("nobody")), count: 11)
        let connector = PairConnector(failures)
        let listener = try Listener(connector, draw: 0.5)
        var events = listener.events.makeAsyncIterator()
        var now = Duration.zero
        for ceiling in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] as [Int] {
            let wait = Duration.seconds(ceiling) / 2
            #expect(await events.next() == .lost(.unreachable("nobody"), retry: wait))
            now += wait
            await listener.clock.sleeper(until: now)
            listener.clock.advance(by: wait)
        }
        #expect(await events.next() == .connected)
        await listener.stop()
    }

    @Test func `does not reset the waits after a connection that is closed at once`() async throws {
        let connector = PairConnector()
        let listener = try Listener(connector)
        var (ends, events) = (connector.opened.makeAsyncIterator(), listener.events.makeAsyncIterator())
        var now = 0
        for wait in [1, 2, 4] {
            let far = try #require(await ends.next())
            #expect(await events.next() == .connected)
            await far.close()
            #expect(await events.next() == .lost(.isClosed, retry: .seconds(wait)))
            now += wait
            await listener.clock.sleeper(until: .seconds(now))
            listener.clock.advance(by: .seconds(wait))
        }
        let far = try #require(await ends.next())
        #expect(await events.next() == .connected)
        listener.clock.advance(by: .seconds(30))
        try await far.sendText("a")
        #expect(await events.next() == .text("a"))
        far.cut()
        #expect(await events.next() == .lost(.lost("it was cut"), retry: .seconds(1)))
        await listener.stop()
    }

    @Test func `waits as long as the server asks`() async throws {
        let connector = PairConnector([.fails(.refused(status: 503, retryAfter: .seconds(120)))])
        let listener = try Listener(connector)
        var events = listener.events.makeAsyncIterator()
        #expect(
            await events.next()
                == .lost(.refused(status: 503, retryAfter: .seconds(120)), retry: .seconds(121)))
        await listener.stop()
    }

    @Test func `ends an attempt without a response in time`() async throws {
        let connector = PairConnector([.hangs])
        let listener = try Listener(connector)
        var events = listener.events.makeAsyncIterator()
        await listener.clock.sleeper(until: .seconds(15))
        listener.clock.advance(by: .seconds(15))
        #expect(await events.next() == .lost(.timedOut(.connecting), retry: .seconds(1)))
        #expect(connector.cancellations == 1)
        await listener.stop()
    }

    @Test func `ends an attempt without a response when it is cancelled`() async throws {
        let connector = PairConnector([.hangs])
        let listener = try Listener(connector)
        await listener.clock.sleeper(until: .seconds(15))
        await listener.stop()
        #expect(connector.cancellations == 1)
        #expect(connector.attempts == 1)
        var events = listener.events.makeAsyncIterator()
        #expect(await events.next() == nil)
    }

    @Test func `closes a transport that opens too late`() async throws {
        let release = Promised<Void>()
        let connector = PairConnector([.opensLate(release)])
        let listener = try Listener(connector)
        var ends = connector.opened.makeAsyncIterator()
        await listener.clock.sleeper(until: .seconds(15))
        listener.clock.advance(by: .seconds(15))
        while connector.cancellations == 0 { try await Task.sleep(for: .milliseconds(1)) }
        release.settle(.success(()))
        let far = try #require(await ends.next())
        var events = listener.events.makeAsyncIterator()
        #expect(await events.next() == .lost(.timedOut(.connecting), retry: .seconds(1)))
        #expect(far.isClosed)
        await listener.stop()
    }

    @Test func `ends a wait when it is cancelled`() async throws {
        let connector = PairConnector([.fails(.unreachable("nobody"))])
        let listener = try Listener(connector)
        await listener.clock.sleeper(until: .seconds(1))
        await listener.stop()
        #expect(connector.attempts == 1)
    }

    @Test func `ends the connection after a message beyond the limit`() async throws {
        let connector = PairConnector()
        var configuration = try Listener.configuration()
        configuration.maximumMessage = 10
        let listener = try Listener(connector, configuration)
        var (ends, events) = (connector.opened.makeAsyncIterator(), listener.events.makeAsyncIterator())
        let far = try #require(await ends.next())
        try await far.sendText("0123456789")
        try await far.sendText("0123456789a")
        #expect(await events.next() == .connected)
        #expect(await events.next() == .text("0123456789"))
        #expect(await events.next() == .lost(.messageTooLarge(limit: 10), retry: .seconds(1)))
        #expect(far.isClosed)
        await listener.stop()
    }

    @Test func `ends the connection if the greeting is not accepted in time`() async throws {
        let release = Promised<Void>()
        let connector = PairConnector([.opensLate(release)])
        var configuration = try Listener.configuration()
        configuration.greeting = [String](repeating: "hello", count: 40)
        let listener = try Listener(connector, configuration)
        var events = listener.events.makeAsyncIterator()
        var ends = connector.opened.makeAsyncIterator()
        await listener.clock.sleeper(until: .seconds(15))
        // The timeout of the attempt ends a second before that of the greeting.
        listener.clock.advance(by: .seconds(1))
        release.settle(.success(()))
        _ = await ends.next()
        await listener.clock.sleeper(until: .seconds(16))
        listener.clock.advance(by: .seconds(15))
        #expect(await events.next() == .lost(.timedOut(.sending), retry: .seconds(1)))
        await listener.stop()
    }
}
