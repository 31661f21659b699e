import Testing

@testable import BundleCore

struct BusyPagesTests {
    private static let limit = Duration.seconds(600)

    @Test func `a page is busy until it says otherwise, leaves, or its time is over`() {
        var pages = BusyPages()
        #expect(!pages.holds(at: .zero, limit: Self.limit))
        pages.report(true, load: "a", number: 1, at: .seconds(10))
        #expect(pages.holds(at: .seconds(609), limit: Self.limit))
        #expect(!pages.holds(at: .seconds(610), limit: Self.limit))
        pages.report(false, load: "a", number: 2, at: .seconds(20))
        #expect(!pages.holds(at: .seconds(20), limit: Self.limit))
        pages.report(true, load: "a", number: 3, at: .seconds(30))
        #expect(pages.holds(at: .seconds(620), limit: Self.limit))
        pages.leave(load: "a")
        #expect(!pages.holds(at: .seconds(30), limit: Self.limit))
    }

    @Test func `saying it again does not make it longer`() {
        var pages = BusyPages()
        for second in 0..<600 { pages.report(true, load: "a", number: second, at: .seconds(second)) }
        #expect(!pages.holds(at: .seconds(600), limit: Self.limit))
    }

    @Test func `reports that overtake each other count by their number`() {
        var pages = BusyPages()
        pages.report(false, load: "a", number: 2, at: .zero)
        pages.report(true, load: "a", number: 1, at: .zero)
        #expect(!pages.holds(at: .zero, limit: Self.limit))
    }

    @Test func `each page counts, and only the youngest are remembered`() {
        var pages = BusyPages()
        pages.report(true, load: "a", number: 1, at: .zero)
        pages.report(true, load: "b", number: 1, at: .zero)
        pages.leave(load: "b")
        #expect(pages.holds(at: .zero, limit: Self.limit))
        for number in 0..<16 { pages.report(false, load: "c\(number)", number: 1, at: .zero) }
        #expect(!pages.holds(at: .zero, limit: Self.limit))
    }

    @Test(arguments: [(nil, 600), (0, 0), (120, 120), (3600, 3600), (3601, 3600), (-1, 0)] as [(Int?, Int)])
    func `a channel says for how long, within an hour`(seconds: Int?, limit: Int) {
        #expect(BusyPages.limit(seconds) == .seconds(limit))
    }
}
