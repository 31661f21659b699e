import BundleFormats
import ArchiveSource
import BundleSigning
import BundleTesting
import BundleValues
import Synchronization
import BundleTestTraits
import Testing

@testable import BundlePublish

/// Each request of a publication to a bucket fails in every possible way.
@Suite("Failing requests of a publication", .ownThread) struct FailingRequestTests {
    /// The failures of one request.
    enum Failure: CaseIterable, Sendable {
        /// The store responds with an error and does nothing.
        case before
        /// The store does the work and responds with an error.
        case after
        /// The connection ends before the work.
        case lostBefore
        /// The connection ends after the work and before the response.
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

    /// The requests that fail.
    private enum Pattern {
        case none
        /// Every second request: the retry succeeds.
        case everyOther
        /// This request and all later ones.
        case from(Int)
    }

    /// Decides the failure of the next request, and counts the requests.
    private final class Plan: Sendable {
        let state = Mutex((count: 0, pattern: Pattern.none, failure: Failure.before))

        func begin(_ pattern: Pattern, _ failure: Failure = .before) { state.withLock { $0 = (0, pattern, failure) } }
        var count: Int { state.withLock { $0.count } }

        func next() -> Store.Fault? {
            state.withLock { state in
                state.count += 1
                switch state.pattern {
                case .none: return nil
                case .everyOther: return state.count.isMultiple(of: 2) ? nil : state.failure.fault
                case .from(let first) where state.count > first: return .drop
                case .from(let first): return state.count == first ? state.failure.fault : nil
                }
            }
        }
    }

    private let plan = Plan()
    private let store: Store
    private let publisher: StorePublisher

    init() throws {
        let plan = plan
        store = try Store { _, _ in plan.next() }
        publisher = try StorePublisher(store)
    }

    /// Returns the referenced files that are missing or differ.
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
            let document = try ChannelFormat.document(in: bytes)
            return try document.releases.compactMap { release in
                // Copies are one folder deeper; devices never read them.
                try unmet(
                    release.manifest.claims.url, release.manifest.claims.sha256,
                    from: "channels/\(document.channel).json")
            }
        }
    }

    /// The objects before and after an undisturbed publication, and its number of requests.
    private func undisturbed() throws -> (before: [String: [UInt8]], after: [String: [UInt8]], requests: Int) {
        try publisher.publish("1.0.0")
        let before = store.objects
        plan.begin(.none)
        let report = try publisher.publish("1.1.0")
        #expect(report.deltas.contains { $0.entry != nil })
        return (before, store.objects, plan.count)
    }

    @Test(arguments: Failure.allCases)
    func `retries a request that succeeds the second time`(_ failure: Failure) throws {
        let (before, after, requests) = try undisturbed()
        store.load(before)
        plan.begin(.everyOther, failure)
        let report = try publisher.publish("1.1.0", attempts: 2)
        #expect(plan.count >= 2 * requests && requests > 15)
        #expect(report.manifest.version == (try publisher.workspace.version("1.1.0")))
        #expect(try missing() == [])
        #expect(store.objects == after)
    }

    @Test(arguments: [Failure.lostBefore, .lostAfter])
    func `leaves a feed that the next publication completes after a loss of all further requests`(_ failure: Failure)
        throws
    {
        let (before, after, requests) = try undisturbed()
        for number in 1...requests {
            store.load(before)
            plan.begin(.from(number), failure)
            let refused = publisher.workspace.refusal { try publisher.publish("1.1.0") }
            #expect(
                [.httpStatus, .networkUnavailable].contains(refused?.code),
                "request \(number): \(refused?.message ?? "")")
            #expect(try missing() == [], "request \(number)")
            for (name, bytes) in before where !["channels/stable.json", "manifest.json"].contains(name) {
                #expect(store.object(name) == bytes, "request \(number): \(name)")
            }
            plan.begin(.none)
            try publisher.publish("1.1.0")
            #expect(try missing() == [], "request \(number)")
            #expect(store.objects == after, "request \(number)")
        }
    }
}
