import Testing

@testable import BundleCore

struct BusyPagesTests {
    private static let limit = Duration.seconds(600)

    @Test func `a page is busy until it reports otherwise, closes, or reaches the limit`() {
        var pages = BusyPages()
        #expect(!pages.holds(at: .zero, limit: Self.limit))
        pages.report(true, load: "a", number: 1, at: .seconds(10))
        #expect(pages.holds(at: .seconds(609), limit: Self.limit))
        #expect(!pages.holds(at: .seconds(610), limit: Self.limit))
        pages.report(false, load: "a", number: 2, at: .seconds(20))
        #expect(!pages.holds(at: .seconds(20), limit: Self.limit))
        pages.inspected(at: .seconds(20), limit: Self.limit)
        pages.report(true, load: "a", number: 3, at: .seconds(30))
        #expect(pages.holds(at: .seconds(620), limit: Self.limit))
        pages.leave(load: "a")
        #expect(!pages.holds(at: .seconds(30), limit: Self.limit))
    }

    @Test func `a repeated report does not extend the busy time`() {
        var pages = BusyPages()
        for second in 0..<600 { pages.report(true, load: "a", number: second, at: .seconds(second)) }
        #expect(!pages.holds(at: .seconds(600), limit: Self.limit))
    }

    @Test func `ignores a report with an older number`() {
        var pages = BusyPages()
        pages.report(false, load: "a", number: 2, at: .zero)
        pages.report(true, load: "a", number: 1, at: .zero)
        #expect(!pages.holds(at: .zero, limit: Self.limit))
    }

    @Test func `counts every busy page, and forgets all but the 16 youngest`() {
        var pages = BusyPages()
        pages.report(true, load: "a", number: 1, at: .zero)
        pages.report(true, load: "b", number: 1, at: .zero)
        pages.leave(load: "b")
        #expect(pages.holds(at: .zero, limit: Self.limit))
        for number in 0..<16 { pages.report(false, load: "c\(number)", number: 1, at: .zero) }
        #expect(!pages.holds(at: .zero, limit: Self.limit))
    }

    /// A page may change its name with every report, and only the youngest names are kept.
    @Test(arguments: [1, 2, 40]) func `consecutive busy pages delay a change no longer than one page`(overlap: Int) {
        var pages = BusyPages()
        var held = 0
        for second in 0..<2_000 {
            pages.report(true, load: "\(second)", number: 0, at: .seconds(second))
            if second >= overlap { pages.leave(load: "\(second - overlap)") }
            if pages.holds(at: .seconds(second), limit: Self.limit) { held += 1 }
            pages.inspected(at: .seconds(second), limit: Self.limit)
        }
        #expect(held == 600)
    }

    @Test func `restarts the busy time only after an inspection without busy pages`() {
        var pages = BusyPages()
        pages.report(true, load: "a", number: 1, at: .zero)
        pages.report(false, load: "a", number: 2, at: .seconds(300))
        pages.report(true, load: "b", number: 1, at: .seconds(300))
        pages.inspected(at: .seconds(301), limit: Self.limit)
        #expect(!pages.holds(at: .seconds(600), limit: Self.limit))
        pages.report(false, load: "b", number: 2, at: .seconds(700))
        pages.inspected(at: .seconds(700), limit: Self.limit)
        pages.report(true, load: "b", number: 3, at: .seconds(701))
        #expect(pages.holds(at: .seconds(1300), limit: Self.limit))
        #expect(!pages.holds(at: .seconds(1301), limit: Self.limit))
    }

    @Test func `a page that closes without a report is busy until the limit`() {
        var pages = BusyPages()
        pages.report(true, load: "gone", number: 1, at: .zero)
        pages.inspected(at: .seconds(600), limit: Self.limit)
        pages.report(true, load: "next", number: 1, at: .seconds(700))
        #expect(pages.holds(at: .seconds(1299), limit: Self.limit))
    }

    @Test func `delays a recall for at most a minute, or less if the channel sets a lower limit`() {
        var pages = BusyPages()
        pages.report(true, load: "a", number: 1, at: .zero)
        #expect(pages.holdsRecall(at: .seconds(59), limit: Self.limit))
        #expect(!pages.holdsRecall(at: .seconds(60), limit: Self.limit))
        #expect(pages.holds(at: .seconds(60), limit: Self.limit))
        #expect(!pages.holdsRecall(at: .seconds(5), limit: .seconds(5)))
    }

    @Test(arguments: [(nil, 600), (0, 0), (120, 120), (3600, 3600), (3601, 3600), (-1, 0)] as [(Int?, Int)])
    func `accepts the limit of a channel up to one hour`(seconds: Int?, limit: Int) {
        #expect(BusyPages.limit(seconds) == .seconds(limit))
    }
}
