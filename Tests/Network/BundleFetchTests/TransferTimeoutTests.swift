import BundleValues
import BundleFetch
import BundleTestTraits
import BundleTesting
import Testing

@Suite(.ownThread) struct TransferTimeoutTests {
    func fetcher(_ change: (inout FetchOptions) -> Void) -> CurlFetcher {
        var options = FetchOptions(userAgent: "t")
        change(&options)
        return CurlFetcher(options: options)
    }

    static func drip(_ bytes: Int, every milliseconds: Int32) -> Route {
        Route().with {
            $0.framing = .chunked
            $0.pace = .drip(bytes: bytes, everyMilliseconds: milliseconds)
        }
    }

    @Test(arguments: [0, 3])
    func `fails if no byte arrives in time`(afterBytes: Int) async throws {
        let server = try LoopbackServer(["/a": Route([1, 2, 3, 4]).with { $0.pace = .stall(after: afterBytes) }])
        let client = fetcher { $0.stallTimeout = afterBytes == 0 ? .milliseconds(200) : BusyMachine.limit(2) }
        let fetched = await Fetched(client, try server.url("/a"))
        #expect(fetched.fetchError == .tooSlow(try server.url("/a")))
        #expect(fetched.sink.bytes.count == afterBytes)
    }

    @Test func `fails if the connection takes too long`() async throws {
        let silent = try LoopbackServer()
        // The timeout includes the TLS handshake.
        let url = try FetchURL(parsing: "https://127.0.0.1:\(silent.port)/")
        let fetched = await Fetched(fetcher { $0.connectTimeout = .milliseconds(200) }, url)
        #expect(fetched.fetchError == .unreachable(url, reason: "no connection within 0.2 seconds"))
    }

    @Test func `reports the status of a stalled error page`() async throws {
        let server = try LoopbackServer(["/a": Route([1, 2], status: 404).with { $0.pace = .stall(after: 1) }])
        let fetched = await Fetched(fetcher { $0.stallTimeout = BusyMachine.limit(2) }, try server.url("/a"))
        #expect(fetched.fetchError == .httpStatus(404, try server.url("/a"), retryAfter: nil))
    }

    @Test func `fails if the average rate is too low`() async throws {
        let server = try LoopbackServer(["/a": Self.drip(10, every: 20)])
        let client = fetcher {
            $0.slowWindow = .milliseconds(300)
            $0.slowFloor = 100_000
        }
        #expect(await Fetched(client, try server.url("/a")).fetchError == .tooSlow(try server.url("/a")))
    }

    @Test func `fails if a fetch with its redirects takes too long`() async throws {
        let server = try LoopbackServer(["/a": .redirect(to: "/b"), "/b": Self.drip(1, every: 100)])
        let client = fetcher {
            $0.minimumCeiling = BusyMachine.limit(2)
            $0.slowFloor = 0
        }
        let fetched = await Fetched(client, try server.url("/a"), maximumBytes: 1000)
        #expect(fetched.fetchError == .timedOut(try server.url("/b")))
        #expect(!fetched.sink.bytes.isEmpty)
    }

    @Test func `allows more time for a larger limit`() async throws {
        let server = try LoopbackServer(["/a": Self.drip(10, every: 20)])
        let client = fetcher {
            $0.minimumCeiling = .milliseconds(1)
            $0.ceilingRate = 2
            $0.slowFloor = 0
        }
        // The limit is a hundred seconds for 200 bytes, which arrive sooner.
        let fetched = await Fetched(client, try server.url("/a"), maximumBytes: 200)
        #expect(fetched.fetchError == .tooLarge(limit: 200, try server.url("/a")))
    }

    @Test func `starts the timeouts of a queued transfer when it starts`() async throws {
        let server = try LoopbackServer(["/a": Route([1, 2]).with { $0.pace = .stall(after: 1) }])
        let times = BusyMachine.seconds(1)
        let single = fetcher {
            $0.maximumTransfers = 1
            $0.stallTimeout = .milliseconds(150 * times)
            // Less than all transfers need, but much more than one.
            $0.minimumCeiling = .milliseconds(2300 * times)
        }
        let url = try server.url("/a")
        let duration = await ContinuousClock().measure {
            await withTaskGroup(of: FetchError?.self) { group in
                for _ in 0..<16 { group.addTask { await Fetched(single, url, maximumBytes: 10).fetchError } }
                for await error in group { #expect(error == .tooSlow(url)) }
            }
        }
        #expect(duration >= .milliseconds(2400 * times))
    }
}

@Suite(.ownThread) struct CancelledFetchTests {
    @Test func `ends a running or queued transfer at once`() async throws {
        let server = try LoopbackServer(["/a": Route([1, 2]).with { $0.pace = .stall(after: 1) }])
        var options = FetchOptions(userAgent: "t")
        options.maximumTransfers = 1
        options.stallTimeout = .seconds(300)
        let fetcher = CurlFetcher(options: options)
        let url = try server.url("/a")
        let (begun, signal) = AsyncStream<Void>.makeStream()
        let running = Task {
            await Fetched(fetcher, url, sink: RecordingSink(onBegin: { signal.yield() })).error is CancellationError
        }
        for await _ in begun { break }
        let waiting = Task { await Fetched(fetcher, url).error is CancellationError }
        let duration = await ContinuousClock().measure {
            waiting.cancel()
            #expect(await waiting.value)
            running.cancel()
            #expect(await running.value)
        }
        #expect(duration < .seconds(60))
        #expect(server.requests.count == 1)
    }

    @Test func `does not start a transfer of a cancelled task`() async throws {
        let server = try LoopbackServer(["/a": Route([1, 2]).with { $0.pace = .stall(after: 1) }])
        let fetcher = CurlFetcher(options: FetchOptions(userAgent: "t"))
        let url = try server.url("/a")
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await Fetched(fetcher, url).error is CancellationError
        }
        #expect(await task.value)
        #expect(server.connectionCount == 0)
    }

    @Test func `fetches again after a cancellation`() async throws {
        let server = try LoopbackServer(["/a": Route([1, 2]).with { $0.pace = .stall(after: 1) }, "/b": Route([7])])
        let fetcher = CurlFetcher(options: FetchOptions(userAgent: "t"))
        let url = try server.url("/a")
        let task = Task { await Fetched(fetcher, url).error is CancellationError }
        task.cancel()
        #expect(await task.value)
        #expect(await Fetched(fetcher, try server.url("/b")).sink.bytes == [7])
    }
}
