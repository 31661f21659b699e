import BundleValues
import BundlePlatform
import BundleTestTraits
import BundleTesting
import Testing

@Suite(.ownThread) struct `A slow transfer` {
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
    func `ends when no byte comes`(afterBytes: Int) async throws {
        let server = try LoopbackServer(["/a": Route([1, 2, 3, 4]).with { $0.pace = .stall(after: afterBytes) }])
        let impatient = fetcher { $0.stallTimeout = afterBytes == 0 ? .milliseconds(200) : BusyMachine.limit(2) }
        let fetched = await Fetched(impatient, try server.url("/a"))
        #expect(fetched.fetchError == .tooSlow(try server.url("/a")))
        #expect(fetched.sink.bytes.count == afterBytes)
    }

    @Test func `ends when it does not get connected`() async throws {
        let silent = try LoopbackServer()
        // The TLS handshake of a server that says nothing counts as connecting.
        let url = try FetchURL(parsing: "https://127.0.0.1:\(silent.port)/")
        let fetched = await Fetched(fetcher { $0.connectTimeout = .milliseconds(200) }, url)
        #expect(fetched.fetchError == .unreachable(url, reason: "no connection within 0.2 seconds"))
    }

    @Test func `reports the status of an error page that stalls`() async throws {
        let server = try LoopbackServer(["/a": Route([1, 2], status: 404).with { $0.pace = .stall(after: 1) }])
        let fetched = await Fetched(fetcher { $0.stallTimeout = BusyMachine.limit(2) }, try server.url("/a"))
        #expect(fetched.fetchError == .httpStatus(404, try server.url("/a"), retryAfter: nil))
    }

    @Test func `ends when the average is too low`() async throws {
        let server = try LoopbackServer(["/a": Self.drip(10, every: 20)])
        let patient = fetcher {
            $0.slowWindow = .milliseconds(300)
            $0.slowFloor = 100_000
        }
        #expect(await Fetched(patient, try server.url("/a")).fetchError == .tooSlow(try server.url("/a")))
    }

    @Test func `ends when it takes too long in all, redirects included`() async throws {
        let server = try LoopbackServer(["/a": .redirect(to: "/b"), "/b": Self.drip(1, every: 100)])
        let patient = fetcher {
            $0.minimumCeiling = BusyMachine.limit(2)
            $0.slowFloor = 0
        }
        let fetched = await Fetched(patient, try server.url("/a"), maximumBytes: 1000)
        #expect(fetched.fetchError == .timedOut(try server.url("/b")))
        #expect(!fetched.sink.bytes.isEmpty)
    }

    @Test func `may take longer the larger it may be`() async throws {
        let server = try LoopbackServer(["/a": Self.drip(10, every: 20)])
        let patient = fetcher {
            $0.minimumCeiling = .milliseconds(1)
            $0.ceilingRate = 2
            $0.slowFloor = 0
        }
        // A hundred seconds for 200 bytes, which arrive sooner.
        let fetched = await Fetched(patient, try server.url("/a"), maximumBytes: 200)
        #expect(fetched.fetchError == .tooLarge(limit: 200, try server.url("/a")))
    }

    @Test func `does not age while it waits for its turn`() async throws {
        let server = try LoopbackServer(["/a": Route([1, 2]).with { $0.pace = .stall(after: 1) }])
        let times = BusyMachine.seconds(1)
        let single = fetcher {
            $0.maximumTransfers = 1
            $0.stallTimeout = .milliseconds(150 * times)
            // Less than all of them need, and much more than one.
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

@Suite(.ownThread) struct `A cancelled fetch` {
    @Test func `ends at once, running or waiting`() async throws {
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

    @Test func `is not begun when its task was cancelled before`() async throws {
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

    @Test func `leaves the fetcher fit for others`() async throws {
        let server = try LoopbackServer(["/a": Route([1, 2]).with { $0.pace = .stall(after: 1) }, "/b": Route([7])])
        let fetcher = CurlFetcher(options: FetchOptions(userAgent: "t"))
        let url = try server.url("/a")
        let task = Task { await Fetched(fetcher, url).error is CancellationError }
        task.cancel()
        #expect(await task.value)
        #expect(await Fetched(fetcher, try server.url("/b")).sink.bytes == [7])
    }
}
