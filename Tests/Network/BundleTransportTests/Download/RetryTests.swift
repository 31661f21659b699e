import BundleValues
import Testing

@testable import BundleTransport

@Suite("RetryRule") struct RetryRuleTests {
    let policy = DownloadPolicy()

    @Test func `SW-53: waits by the triangular numbers`() {
        let seconds = (0..<10).map { AttemptRule.interval($0) / .seconds(1) }
        #expect(seconds == [0.1, 1, 2, 4, 7, 11, 16, 22, 29, 30])
        #expect(AttemptRule.interval(.max) == .seconds(30))
    }

    @Test func `adds jitter, so that devices do not retry at the same time`() {
        let waits = [0.75, 1, 1.25].map { AttemptRule.delay(after: nil, failures: 2, jitter: $0, policy: policy) }
        #expect(waits == [.milliseconds(1500), .seconds(2), .milliseconds(2500)])
    }

    @Test(arguments: [(0, 1), (7, 7), (120, 120), (9999, 120)])
    func `N-15: waits at least as long as the server asks, up to the limit`(asked: Int, waited: Int) throws {
        let url = try FetchURL(parsing: "http://h/a")
        let error = FetchError.httpStatus(503, url, retryAfter: .seconds(asked))
        #expect(AttemptRule.delay(after: error, failures: 1, jitter: 1, policy: policy) == .seconds(waited))
    }

    @Test(arguments: [
        (408, true), (425, true), (429, true), (500, true), (503, true), (599, true), (400, false), (401, false),
        (403, false), (404, false), (410, false),
    ])
    func `repeats requests only after temporary statuses`(status: Int, isWorth: Bool) throws {
        let url = try FetchURL(parsing: "http://h/a")
        #expect(AttemptRule.mayPass(.httpStatus(status, url, retryAfter: nil)) == isWorth)
    }

    @Test func `repeats requests after network failures but not after rejections`() throws {
        let url = try FetchURL(parsing: "https://h/a")
        for error in [
            FetchError.unreachable(url, reason: ""), .tooSlow(url), .timedOut(url), .invalidResponse(url, reason: ""),
        ] { #expect(AttemptRule.mayPass(error)) }
        for error in [
            FetchError.tooLarge(limit: 1, url), .redirectRefused(from: url, to: "", reason: ""),
            .tlsFailed(url, reason: ""), .fileMissing(url),
        ] { #expect(!AttemptRule.mayPass(error)) }
    }
}

@Suite("DownloadSchedule") struct DownloadScheduleTests {
    func schedule(_ count: Int, _ change: (inout DownloadPolicy) -> Void = { _ in }) -> DownloadSchedule {
        var policy = DownloadPolicy()
        change(&policy)
        return DownloadSchedule(count: count, policy: policy)
    }

    @Test func `starts the first job alone and then the allowed number in order`() {
        var schedule = schedule(20)
        #expect(schedule.start()?.index == 0)
        #expect(schedule.start() == nil)
        schedule.received()
        #expect(schedule.start() == nil)
        schedule.landed()
        _ = schedule.complete(0)
        #expect((0..<7).map { _ in schedule.start()?.index } == [1, 2, 3, 4, 5, 6, nil])
    }

    @Test func `ends the attempts at a file after five in a row without progress`() {
        var schedule = schedule(1)
        _ = schedule.start()
        var answers: [Int?] = []
        for reached in [0, 0, 0, 10, 10, 10, 10, 10] {
            answers.append(schedule.fail(0, bytes: reached, reached: reached, part: nil))
        }
        #expect(answers == [0, 1, 2, 0, 1, 2, 3, nil])
    }

    @Test func `repeats an attempt with progress even if no other is repeated`() {
        var schedule = schedule(2) { ($0.attempts, $0.retries) = (1, 4) }
        let answers = [10, 20, 20].map { schedule.fail(0, bytes: 10, reached: $0, part: nil) }
        #expect(answers == [0, 0, nil])
        #expect(schedule.fail(1, bytes: 0, reached: 10, part: nil) == nil)
    }

    @Test func `starts a rejected resumed file again once`() {
        var schedule = schedule(1) { $0.attempts = 1 }
        let answers = (0..<2).map { _ in schedule.fail(0, bytes: 9, reached: 0, part: nil, startsOver: true) }
        #expect(answers == [0, nil])
    }

    @Test func `ends the attempts of a run after too many in total`() {
        var schedule = schedule(9) { $0.retries = 2 }
        let answers = (0..<3).map { schedule.fail($0, bytes: 0, reached: 0, part: nil) }
        #expect(answers == [0, 0, nil])
    }

    @Test func `starts no new file while too many wait, but repeats those whose wait is over`() {
        var schedule = schedule(9) { $0.waiting = 2 }
        _ = schedule.start()
        schedule.ended()
        _ = schedule.complete(0)
        for index in 1...2 {
            #expect(schedule.start()?.index == index)
            schedule.ended()
            #expect(schedule.fail(index, bytes: 0, reached: 0, part: nil) == 0)
        }
        #expect(schedule.start() == nil)
        schedule.wake(2)
        #expect(schedule.start()?.index == 2)
        #expect(schedule.start()?.index == 3)
    }
}
