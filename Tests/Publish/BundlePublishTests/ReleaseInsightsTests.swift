import ArchiveSource
import BundleCore
import BundleSigning
import BundleTesting
import BundleValues
import Testing

@testable import BundlePublish
@testable import BundleFleet

@Suite("ReleaseInsights") struct ReleaseInsightsTests {
    private let workspace: Workspace

    init() throws { workspace = try Workspace() }

    private static func reports(_ counts: (labels: [String: String], count: Int)...) -> ChannelReports {
        ChannelReports(
            counts: counts.map { .init(labels: $0.labels, samples: [.init(time: 1, count: $0.count)]) }, courses: [])
    }

    private func insights(_ reports: ChannelReports, deltas: DeltaList? = nil) throws -> ReleaseInsights {
        var document = try workspace.document("1.0.0")
        var claims = try workspace.manifest("1.1.0").claims
        claims.size = 1000
        let signature = try workspace.release.sign(try claims.statement())
        let manifest = try ManifestFormat.parse(
            JSONWriter.bytes(of: ManifestFormat.document(claims, signature: signature)))
        document.releases.append(ChannelDocument.Release(manifest, rollout: 250))
        return ReleaseInsights(
            try workspace.version("1.1.0"), in: document, at: workspace.start, deltas: deltas, reports: reports,
            verdicts: FirstVerdicts(confirmed: 0, failed: 0), rule: .rate(permille: 20))
    }

    @Test func `adds counts of any size without overflow`() throws {
        let labels = ["version": "1.1.0", "fact": "installed", "route": "delta"]
        let failed = ["version": "1.1.0", "fact": "failed", "code": "reported"]
        let series = [labels, failed].flatMap { labels in
            (0..<10_000).map { _ in
                MetricsEngine.Series(labels: labels, samples: [.init(time: 1, count: 1_000_000_000_000_000)])
            }
        }
        let release = try #require(ChannelReports(counts: series, courses: []).releases.first)
        #expect(release.facts == ["installed": JSONValue.maximumInteger, "failed": JSONValue.maximumInteger])
        #expect(release.routes == ["delta": JSONValue.maximumInteger])
        #expect(release.failures == ["reported": JSONValue.maximumInteger])
        let reported = try insights(ChannelReports(counts: series, courses: []))
        #expect(reported.routes.map(\.installs) == [JSONValue.maximumInteger])
    }

    @Test func `reports installs by route with their bytes`() throws {
        let digest = try SHA256Digest.of([])
        let deltas = DeltaList(
            version: try workspace.version("1.1.0"), contentSha256: digest,
            deltas: [30, 50].map {
                .init(baseVersion: nil, baseContentSha256: digest, url: "x", size: $0, sha256: digest, memory: 1)
            })
        let reported = Self.reports(
            (["version": "1.1.0", "fact": "installed", "route": "archive"], 3),
            (["version": "1.1.0", "fact": "installed", "route": "delta"], 7),
            (["version": "1.1.0", "fact": "installed", "route": "pigeon"], 1))
        #expect(
            try insights(reported, deltas: deltas).routes == [
                .init(name: "delta", installs: 7, bytes: 350), .init(name: "archive", installs: 3, bytes: 3000),
                .init(name: "pigeon", installs: 1, bytes: nil),
            ])
        #expect(try insights(reported).routes.map(\.bytes) == [nil, 3000, nil])
        let absurd = Self.reports(
            (["version": "1.1.0", "fact": "installed", "route": "archive"], 1_000_000_000_000_000))
        #expect(try insights(absurd).routes.map(\.bytes) == [nil])
    }

    @Test func `reports the percentage of the fleet if other releases were reported`() throws {
        let alone = try insights(Self.reports((["version": "1.1.0", "fact": "confirmed"], 25)))
        #expect(alone.fleet == nil && alone.confirmedShare == nil)
        let beside = try insights(
            Self.reports(
                (["version": "1.1.0", "fact": "confirmed"], 25), (["version": "1.0.0", "fact": "installed"], 200)))
        #expect(beside.fleet == 200 && beside.confirmedShare?.description == "12.5%")
        let unknown = try insights(Self.reports((["version": "1.0.0", "fact": "installed"], 200)))
        #expect(unknown.reports == nil && unknown.fleet == nil && unknown.verdicts == nil)
    }

    @Test(arguments: [(149, 0, 20), (59, 0, 50), (0, 0, 1000), (0, 9, 1000), (10_000_000, 0, 1)])
    func `computes the lowest failure rate that the verdicts rule out`(confirmed: Int, failed: Int, permille: Int) {
        #expect(GuardRule.bound(FirstVerdicts(confirmed: confirmed, failed: failed)) == permille)
    }

    @Test func `rules out the same rates as the guard's rule`() {
        var numbers = SeededGenerator(seed: 4)
        for _ in 0..<300 {
            let verdicts = FirstVerdicts(
                confirmed: Int.random(in: 0...3000, using: &numbers), failed: Int.random(in: 0...60, using: &numbers))
            let permille = Int.random(in: 1...450, using: &numbers)
            let isProven = GuardRule.missing(verdicts, below: 2 * Double(permille) / 1000) == 0
            #expect(isProven == (GuardRule.bound(verdicts) <= 2 * permille))
        }
    }

    @Test func `describes the finding in words`() {
        func words(_ confirmed: Int, _ failed: Int, _ rule: GuardRule = .rate(permille: 20)) -> String {
            rule.words(FirstVerdicts(confirmed: confirmed, failed: failed))
        }
        #expect(words(70, 0) == "undecided, at most 2% may fail: 4 more confirmed starts would decide it")
        #expect(words(500, 1) == "few enough starts fail: at most 2% may")
        #expect(words(5, 5) == "too many starts fail: more than the allowed 2%")
        #expect(words(5, 5, .simple(starts: 3, permille: 0)) == "too many starts fail: more than the allowed 3")
        #expect(words(2, 3, .simple(starts: 3, permille: 0)) == "too many starts fail: clearly more than 2%")
        #expect(words(95, 5, .simple(starts: 0, permille: 50)) == "few enough starts fail: at most 5% may")
    }
}
