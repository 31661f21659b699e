import BundleDisk
import BundleFleet
import BundleServe
import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

@Suite(.ownThread) struct RequestBodyLimitTests {
    private let folder: TemporaryFolder
    private let feed: Directory
    /// A message without reports. Blanks may follow it.
    private let message = ReportMessage(appId: nil, reports: [], dropped: 0).bytes

    init() throws {
        folder = try TemporaryFolder()
        feed = try Directory.open(folder.path)
    }

    private func server(_ change: (inout ServerLimits) -> Void = { _ in }) async throws -> FeedHost {
        var configuration = FeedConfiguration()
        configuration.reports = try ReportCounter("counts.json", in: feed, of: feed)
        configuration.limits.request = .seconds(3600)
        configuration.limits.slowBody = .seconds(3600)
        change(&configuration.limits)
        return try await FeedHost.start(configuration, serving: feed, environment: Environment())
    }

    private func begin(
        _ server: FeedHost, _ length: Int, _ first: Int, patience: Int = 60_000
    ) throws -> RawConnection {
        let connection = try RawConnection(port: server.port, patience: patience)
        connection.send(
            "POST /report HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: \(length)\r\n\r\n"
        )
        let blanks = [UInt8](repeating: 0x20, count: max(0, first - message.count))
        connection.send((message + blanks).prefix(first) + [])
        return connection
    }

    @Test func `rejects a body with a retry time when the buffer space is used up`() async throws {
        let server = try await server { $0.bodies = 100_000 }
        let first = try begin(server, 60_000, 59_999)
        // The server has received the first body by now, or the second one would be rejected.
        try await eventually {
            // If the first body has not arrived yet, this one ends and releases its space.
            let answer = try? begin(server, 40_001, 0, patience: 200).receiveAnswer()
            return answer?.status == 429 && answer?["Retry-After"] == "30"
        }
        let small = try begin(server, 40_000, 40_000)
        #expect(try small.receiveAnswer().text == #"{"counted":0}"#)
        first.send([0x20])
        #expect(try first.receiveAnswer().text == #"{"counted":0}"#)
        // On the same connection and on others, a response releases the space of its body.
        for _ in 0..<3 { #expect(try begin(server, 60_000, 60_000).receiveAnswer().status == 200) }
        await server.stop(grace: .zero)
    }

    @Test func `closes a connection whose body does not arrive in favor of another one`() async throws {
        let server = try await server {
            $0.bodies = 100_000
            $0.slowBody = .milliseconds(20)
        }
        let silent = try (0..<2).map { _ in try begin(server, 50_000, 0) }
        // Either of them may be closed, because the server may read the third one first.
        try await eventually { (try? begin(server, 64_000, 64_000).receiveAnswer().status) == 200 }
        try await eventually { (try? begin(server, 64_000, 64_000).receiveAnswer().status) == 200 }
        #expect(try silent.contains { try $0.receiveAll() == [] })
        await server.stop(grace: .zero)
    }

    @Test(arguments: [true, false]) func `releases the buffer space of unfinished bodies`(isCut: Bool) async throws {
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
                // The connection was closed while it was sending.
                #expect("\(error)".contains("reset"))
            }
        }
        slow = nil
        try await eventually { (try? begin(server, 64_000, 64_000).receiveAnswer().status) == 200 }
        await server.stop(grace: .zero)
    }
}
