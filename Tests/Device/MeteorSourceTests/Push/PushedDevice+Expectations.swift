import BundleCore
import BundleValues
import BundleDisk
import BundleTesting
import MeteorTesting
import Testing

extension PushedDevice {
    /// Returns the store without the files of an interrupted attempt and the versions that were not downloaded.
    func picture() throws -> TreeSnapshot { try TreeSnapshot(of: store, without: ["downloads"]).withoutWanted }

    /// Expects that an update fails with this code and message. Nothing is pending or ready, the store and the shown page
    /// are unchanged, and `requests` are exactly the requests.
    func expectRefusal(
        _ code: FailureCode, _ fragment: String, requests expected: [String: Int]? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let before = try picture()
        let page = try served("/")
        let failure = try await failure()
        #expect(failure?.code == code, sourceLocation: sourceLocation)
        #expect(
            failure?.message.contains(fragment) == true, "\(failure?.message ?? "no failure")",
            sourceLocation: sourceLocation)
        if let expected { #expect(requests == expected, sourceLocation: sourceLocation) }
        #expect(try picture().changes(since: before) == [], sourceLocation: sourceLocation)
        #expect(try inventory().ledger.pending == nil, sourceLocation: sourceLocation)
        try reload()
        #expect(try served("/") == page, sourceLocation: sourceLocation)
    }

    /// Returns the text at a URL path, or nil if there is none.
    func text(_ urlPath: String) throws -> String? { try served(urlPath).map { String(decoding: $0, as: UTF8.self) } }

    // MARK: Interruptions

    /// Runs an update until these URL paths are complete and then ends it. The responses for `held` never arrive.
    func interrupt(after finished: [String], holding held: [String]) async throws {
        let gate = try Gate()
        for path in held { server.fault(path, .hold(gate)) }
        let task = Task { try await self.update() }
        try await waitForFinished(finished)
        // Otherwise the log can receive the requests after it was cleared.
        for path in held { #expect(server.wait(for: path)) }
        task.cancel()
        let result = await task.result
        #expect(throws: (any Error).self) { try result.get() }
        server.heal()
        gate.open()
        server.clearRequests()
    }

    /// Waits until the journal of the running attempt lists these paths as complete.
    func waitForFinished(_ urlPaths: [String]) async throws {
        for _ in 0..<12_000 {
            let lines = (try? journal().split(separator: "\n")) ?? []
            let complete = lines.filter { $0.hasPrefix("complete\t") }
            if urlPaths.allSatisfy({ path in complete.contains { $0.contains("\t\(path) ") } }) { return }
            try await Task.sleep(for: .milliseconds(5))
        }
        Issue.record("\(urlPaths) were not finished after a minute")
    }

    private func journal() throws -> String {
        let staging = try Directory.open(store).directory("staging")
        return try staging.list().map { name in
            String(decoding: try contents(ofFile: "\(staging.path)/\(name)/assets.journal"), as: UTF8.self)
        }.joined()
    }

    /// Whether a partial file of the running attempt has this many bytes.
    func largestPart(atLeast bytes: Int) -> Bool {
        guard let files = try? TreeSnapshot(of: "\(store)/staging").files else { return false }
        return files.contains { $0.key.contains("/parts/part-") && $0.value.count >= bytes }
    }
}
