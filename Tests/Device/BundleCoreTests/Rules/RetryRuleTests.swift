import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleSigning
import BundleValues

struct RetryRuleTests {
    @Test(arguments: [
        (0, RetryRule.Availability.waits(.seconds(900))), (25, .waits(.seconds(875))), (899, .waits(.seconds(1))),
        (900, .offered), (5000, .offered),
    ])
    func `offers a failed client again only after the pause`(
        seconds: Int, answer: RetryRule.Availability
    ) {
        let failure = Duration.seconds(70)
        let now = failure + .seconds(seconds)
        #expect(RetryRule.answer(failedAt: failure, now: now, pause: RetryRule.standardPause) == answer)
    }

    @Test func `offers at once a client that failed before the shell started`() {
        #expect(RetryRule.answer(failedAt: nil, now: .zero, pause: RetryRule.standardPause) == .offered)
    }

    // MARK: By the channel

    private static func document(_ sequence: Int, retries: Int) throws -> FeedMemory.ChannelMemory {
        FeedMemory.ChannelMemory(
            name: "stable", sequence: sequence, payloadSha256: try .of([UInt8(sequence)]), signers: ["a"],
            issuedAt: Timestamp(clamping: sequence), expires: Timestamp(clamping: 1000), recalled: [],
            minimumVersion: nil, leftOut: [],
            retries: retries == 0 ? [] : [.init(try SemanticVersion(parsing: "1.1.0"), retries)])
    }

    private static func take(_ sequence: Int, retries: Int, _ ledger: inout Ledger) throws {
        var after = ledger.feed
        after.follow(try document(sequence, retries: retries))
        ledger = ledger.recording(FeedUpdate(before: ledger.feed, after: after))
    }

    private static func fail(_ ledger: inout Ledger) throws {
        ledger.fail(
            try Sample.version("1.1.0"), by: StartFailure(.notConfirmed, detail: "", at: Timestamp(clamping: 1)))
    }

    @Test func `a channel's retry unblocks a version for one more start`()
        throws
    {
        let version: ClientVersion = try Sample.version("1.1.0")
        var ledger = try Sample.inventory([try Sample.entry("1.1.0")]).ledger
        for _ in 0..<2 { try Self.fail(&ledger) }
        try Self.take(1, retries: 0, &ledger)
        #expect(ledger.block(on: version)?.cause == .failedStarts)
        for retry in 1...2 {
            try Self.take(2 * retry, retries: retry, &ledger)
            #expect(ledger.block(on: version) == nil)
            #expect(ledger.record(of: version)?.failures.count == 1)
            try Self.fail(&ledger)
            #expect(ledger.block(on: version)?.cause == .failedStarts)
            // The same number does not grant another retry, even after the ledger was written and read.
            ledger = try Ledger(MemberReader(.object(Self.written(ledger)), of: "ledger"))
            try Self.take(2 * retry + 1, retries: retry, &ledger)
            #expect(ledger.block(on: version)?.cause == .failedStarts)
        }
    }

    private static func written(_ ledger: Ledger) throws -> JSONObject {
        var object = ledger.object
        object["checksum"] = .string(try SHA256Digest.of(JSONWriter.bytes(of: .object(object))).hex)
        return object
    }

    @Test func `a channel's retry does not unblock a version that an operator rolled back`() throws {
        let version: ClientVersion = try Sample.version("1.1.0")
        var ledger = try Sample.inventory([try Sample.entry("1.1.0")]).ledger
        for _ in 0..<2 { try Self.fail(&ledger) }
        ledger.rollBack(to: .embedded, from: [version], at: Timestamp(clamping: 5))
        try Self.take(1, retries: 1, &ledger)
        #expect(ledger.block(on: version)?.cause == .byHand)
    }
}
