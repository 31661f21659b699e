import BundleServe
import BundleTestTraits
import BundleTesting
import Testing

/// How much of unfinished bodies a server keeps.
@Suite(.ownThread) struct `Bodies under way` {
    private struct Receiver: ReportReceiver {
        func take(_ message: [UInt8]) async -> ReportVerdict { .taken(counted: message.count) }
        func metrics() async -> String { "" }
    }

    private func server(_ change: (inout ServerLimits) -> Void = { _ in }) async throws -> FeedServer {
        var configuration = FeedConfiguration()
        configuration.reports = Receiver()
        configuration.limits.request = .seconds(3600)
        configuration.limits.slowBody = .seconds(3600)
        change(&configuration.limits)
        return try await FeedServer.start(configuration)
    }

    private func begin(
        _ server: FeedServer, _ length: Int, _ first: Int, patience: Int = 60_000
    ) throws -> RawConnection {
        let connection = try RawConnection(port: server.port, patience: patience)
        connection.send(
            "POST /report HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: \(length)\r\n\r\n"
        )
        connection.send([UInt8](repeating: 0x20, count: first))
        return connection
    }

    @Test func `have a limit in all, beyond which others are told to come later`() async throws {
        let server = try await server { $0.bodies = 100_000 }
        let first = try begin(server, 60_000, 59_999)
        // The server has it by now, or the next is told otherwise.
        try await eventually {
            // Where the first one is not there yet, this one goes and leaves its room.
            let answer = try? begin(server, 40_001, 0, patience: 200).receiveAnswer()
            return answer?.status == 429 && answer?["Retry-After"] == "30"
        }
        let small = try begin(server, 40_000, 40_000)
        #expect(try small.receiveAnswer().text == #"{"counted":40000}"#)
        first.send([0x20])
        #expect(try first.receiveAnswer().text == #"{"counted":60000}"#)
        // On the same connection, and on others: what was answered has no room any more.
        for _ in 0..<3 { #expect(try begin(server, 60_000, 60_000).receiveAnswer().status == 200) }
        await server.stop(grace: .zero)
    }

    @Test func `that do not come give way to one that does`() async throws {
        let server = try await server {
            $0.bodies = 100_000
            $0.slowBody = .milliseconds(20)
        }
        let silent = try (0..<2).map { _ in try begin(server, 50_000, 0) }
        // Either of them is over all the same: the server may see the third one first.
        try await eventually { (try? begin(server, 64_000, 64_000).receiveAnswer().status) == 200 }
        try await eventually { (try? begin(server, 64_000, 64_000).receiveAnswer().status) == 200 }
        #expect(try silent.contains { try $0.receiveAll() == [] })
        await server.stop(grace: .zero)
    }

    @Test(arguments: [true, false]) func `that never end give their room back`(isCut: Bool) async throws {
        let server = try await server {
            $0.bodies = 65_000
            $0.request = isCut ? .milliseconds(50) : .seconds(3600)
        }
        var slow: RawConnection? = try begin(server, 64_000, 60_000)
        if isCut {
            do {
                let answer = try slow?.receiveAll()
                #expect(answer == [])
            } catch let error as SystemCallError {
                // It was cut off while it still sent.
                #expect("\(error)".contains("reset"))
            }
        }
        slow = nil
        try await eventually { (try? begin(server, 64_000, 64_000).receiveAnswer().status) == 200 }
        await server.stop(grace: .zero)
    }
}
