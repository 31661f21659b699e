import ArchiveSource
import BundleSigning
import BundleTesting
import BundleValues
import Synchronization
import Testing

@testable import BundlePublish

/// Each request of a publish to a bucket fails in each way that it can fail.
@Suite struct `A publish whose request fails` {
    /// Each on one publish, at one request.
    enum Failure: CaseIterable, Sendable {
        /// The store answers with a fault, and did nothing.
        case before
        /// The store did it, and answers with a fault.
        case after
        /// The connection ends, and nothing was done.
        case lostBefore
        /// It was done, and the connection ends before the answer.
        case lostAfter

        var fault: Store.Fault {
            switch self {
            case .before: .refuse(500, "InternalError")
            case .after: .deny(500)
            case .lostBefore: .drop
            case .lostAfter: .forget
            }
        }
    }

    /// What is wrong from which request on, and how many requests there were.
    private final class Plan: Sendable {
        let state = Mutex((count: 0, failing: 0..<0, failure: Failure.before))

        func begin(_ failing: Range<Int>, _ failure: Failure) { state.withLock { $0 = (0, failing, failure) } }
        var count: Int { state.withLock { $0.count } }

        func next() -> Store.Fault? {
            state.withLock { state in
                state.count += 1
                guard state.failing.contains(state.count) else { return nil }
                // What follows a request that stops a publish finds nobody.
                return state.count == state.failing.lowerBound ? state.failure.fault : .drop
            }
        }
    }

    private let bench: Bench
    private let plan = Plan()
    private let store: Store
    private let sources: [String: String]

    init() throws {
        bench = try Bench()
        let plan = plan
        store = try Store { _, _ in plan.next() }
        var generator = SeededGenerator(seed: 1)
        let lines = (0..<800).map { _ in "const v\(UInt64.random(in: .min ... .max, using: &generator)) = 1;\n" }
        var sources: [String: String] = [:]
        for version in ["1.0.0", "1.1.0"] {
            sources[version] = try bench.folder.writeTree(
                [
                    "index.html": Array("<!doctype html><title>x</title>\n".utf8),
                    "app.js": Array((lines.joined() + "// \(version)\n").utf8),
                ], to: "web-\(version)")
        }
        self.sources = sources
    }

    /// As `clientctl publish --channel stable` does.
    @discardableResult
    private func publish(_ version: String, attempts: Int) throws -> ReleaseReport {
        var options = ReleaseOptions(
            version: try bench.version(version), shells: try ShellRange(minimum: bench.version("1.0.0")),
            createdAt: bench.start)
        options.appId = "com.example.kiosk"
        options.level = 1
        options.windowLog = 20
        options.deltas = DeltaTerms()
        var terms = bench.terms()
        if version == "1.0.0" { terms.firstSequence = 1 }
        let builder = ReleaseBuilder(options, feed: try store.place(attempts: attempts)) { _ in }
        return try builder.publish(
            builder.look(at: try #require(sources[version])), signers: [bench.release],
            to: ChannelPlan("stable", rollout: nil, terms))
    }

    /// What documents name that is not there, or is something else.
    private func missing() throws -> [String] {
        let objects = store.objects
        func unmet(_ url: String, _ sha256: SHA256Digest, from document: String) throws -> String? {
            let path = try #require(FeedExport.path(of: url, from: document))
            let isThere = try objects[path].map { try SHA256Digest.of($0) == sha256 } ?? false
            return isThere ? nil : "\(document) names \(path)"
        }
        return try objects.flatMap { name, bytes -> [String] in
            if name.hasSuffix("manifest.json") {
                let claims = try ManifestFormat.parse(bytes).claims
                return [try unmet(claims.url, claims.sha256, from: name)].compactMap(\.self)
            }
            if name.hasSuffix("deltas.json") {
                return try DeltaListFormat.parse(DeltaListFormat.envelope(parsing: bytes)).deltas.compactMap {
                    try unmet($0.url, $0.sha256, from: name)
                }
            }
            guard name.hasPrefix("channels/") else { return [] }
            let document = try ChannelFormat.parse(ChannelFormat.envelope(parsing: bytes)).claims
            return try document.releases.compactMap { release in
                // Copies lie one folder deeper; devices never read them.
                try unmet(
                    release.manifest.claims.url, release.manifest.claims.sha256,
                    from: "channels/\(document.channel).json")
            }
        }
    }

    /// The objects before and after a publish that nothing disturbs, and how many requests it takes.
    private func undisturbed() throws -> (before: [String: [UInt8]], after: [String: [UInt8]], requests: Int) {
        try publish("1.0.0", attempts: 1)
        let before = store.objects
        plan.begin(0..<0, .before)
        let report = try publish("1.1.0", attempts: 1)
        #expect(report.deltas.contains { $0.entry != nil })
        return (before, store.objects, plan.count)
    }

    @Test(arguments: Failure.allCases)
    func `once, goes on by itself`(_ failure: Failure) throws {
        let (before, after, requests) = try undisturbed()
        #expect(requests > 15)
        for number in 1...requests {
            store.load(before)
            plan.begin(number..<number + 1, failure)
            let report = try publish("1.1.0", attempts: 3)
            #expect(report.manifest.version == (try bench.version("1.1.0")), "request \(number)")
            #expect(try missing() == [], "request \(number)")
            #expect(store.objects == after, "request \(number)")
        }
    }

    @Test(arguments: Failure.allCases)
    func `and all that follow it, leaves a feed that the next one completes`(_ failure: Failure) throws {
        let (before, after, requests) = try undisturbed()
        for number in 1...requests {
            store.load(before)
            plan.begin(number..<Int.max, failure)
            let refused = bench.refusal { try publish("1.1.0", attempts: 1) }
            #expect(
                [.httpStatus, .networkUnavailable].contains(refused?.code),
                "request \(number): \(refused?.message ?? "")")
            #expect(try missing() == [], "request \(number)")
            for (name, bytes) in before where !["channels/stable.json", "manifest.json"].contains(name) {
                #expect(store.object(name) == bytes, "request \(number): \(name)")
            }
            plan.begin(0..<0, failure)
            try publish("1.1.0", attempts: 1)
            #expect(try missing() == [], "request \(number)")
            #expect(store.objects == after, "request \(number)")
        }
    }
}
