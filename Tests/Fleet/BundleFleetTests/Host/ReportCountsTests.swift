import BundleValues
import Testing

@testable import BundleFleet

@Suite("ReportCounts") struct ReportCountsTests {
    private typealias Line = ReportCounts.CountLine

    private func names(_ versions: [String], _ channels: Set<String> = ["stable"]) throws -> ReportCounts.Names {
        try ReportCounts.Names(
            channels: channels, versions: Set(versions.map { try SemanticVersion(parsing: $0) }))
    }

    private func report(
        _ version: String, _ channel: String? = "stable", _ fact: DeviceReport.Fact = .started,
        _ code: DeviceReport.Code? = nil, _ route: DeviceReport.UpdateRoute? = nil,
        _ platform: DeviceReport.Platform? = nil, id: String = DeviceReport.randomID()
    ) throws -> DeviceReport {
        DeviceReport(
            id: id, fact: fact, version: try SemanticVersion(parsing: version), channel: channel, route: route,
            code: code, platform: platform)
    }

    private func message(_ reports: [DeviceReport], dropped: Int = 0) -> ReportMessage {
        ReportMessage(appId: nil, reports: reports, dropped: dropped)
    }

    private func again(_ counts: ReportCounts) throws -> ReportCounts {
        try ReportCounts(parsing: JSONWriter.bytes(of: counts.json), maximumBytes: 64 << 20)
    }

    @Test func `sorts ten thousand counters with few comparisons and reads them back`() throws {
        let versions = (0..<100).map { "1.\($0).0" }
        let channels: Set = ["a", "b", "c", "d", "e"]
        let names = try names(versions, channels)
        var counts = ReportCounts()
        for channel in channels {
            for version in versions {
                let reports = try ReportCounts.Cell.all.map {
                    try report(version, channel, $0.fact, $0.code, $0.route, $0.platform)
                }
                #expect(counts.add(message(reports), in: names).counted == ReportCounts.Cell.all.count)
            }
        }
        var comparisons = 0
        let sorted = counts.sorted { left, right in
            comparisons += 1
            return left < right
        }
        #expect(sorted.count == 500 * ReportCounts.Cell.all.count && sorted.count > 10_000)
        // 500 lines in the order of a dictionary need about 10,094 comparisons.
        #expect(comparisons < 20_000)
        let lines = sorted.map(\.line)
        #expect(zip(lines, lines.dropFirst()).allSatisfy { $0 == $1 || $0 < $1 })
        #expect(lines.first?.channel == "a" && lines.first?.version.description == "1.0.0")
        #expect(lines.last?.channel == "e" && lines.last?.version.description == "1.99.0")
        let samples = counts.metrics.split(separator: "\n").filter { $0.hasPrefix("clientctl_reports_total{") }
        #expect(samples.count == sorted.count)
        // Sorted by version, not by text.
        let tenth = try #require(samples.firstIndex { $0.contains(#"channel="a",version="1.10.0""#) })
        let ninth = try #require(samples.firstIndex { $0.contains(#"channel="a",version="1.9.0""#) })
        #expect(ninth < tenth)
        #expect(try again(counts).json == counts.json)
    }

    @Test func `evicts lines that the feed no longer has first, then the lowest version`() throws {
        let old = (0..<ReportCounts.maximumLines).map { "1.\($0).0" }
        var counts = ReportCounts()
        for version in old { _ = counts.add(message([try report(version)]), in: try names([version])) }
        #expect(counts.lines.count == ReportCounts.maximumLines)
        let present = try names(["0.1.0", "2.0.0"] + old.dropFirst(2))
        // 1.0.0 and 1.1.0 are no longer in the feed.
        #expect(counts.add(message([try report("0.1.0")]), in: present).counted == 1)
        #expect(counts.add(message([try report("2.0.0")]), in: present).counted == 1)
        #expect(Set(counts.lines.keys.map(\.version)) == present.versions)
        // All versions are present: a higher version evicts the lowest one, but not the reverse.
        let all = try names(["0.0.9", "0.1.0", "2.0.0", "2.0.1"] + old)
        #expect(counts.add(message([try report("2.0.1")]), in: all).counted == 1)
        #expect(counts.add(message([try report("0.0.9")]), in: all) == .init(counted: 0, isChanged: true))
        #expect(counts.foreign == 1)
        #expect(counts.lines.count == ReportCounts.maximumLines)
        #expect(counts.lines[Line(channel: "stable", version: try SemanticVersion(parsing: "0.1.0"))] == nil)
    }

    @Test func `needs no write for a message that changes nothing`() throws {
        let names = try names(["1.0.0"])
        let known = try report("1.0.0")
        var counts = ReportCounts()
        #expect(counts.add(message([]), in: names) == .init())
        #expect(counts.add(message([], dropped: 1), in: names) == .init(isChanged: true, mustPersist: true))
        #expect(counts.add(message([known]), in: names) == .init(counted: 1, isChanged: true, mustPersist: true))
        #expect(counts.add(message([known], dropped: 1), in: names) == .init(isChanged: true))
        #expect(counts.add(message([try report("9.9.9")]), in: names) == .init(isChanged: true))
        #expect([counts.dropped, counts.repeated, counts.foreign] == [1, 1, 1])
    }

    @Test func `counts a repeated report when the feed has its version`() throws {
        let early = message([try report("1.0.1")])
        var counts = ReportCounts()
        #expect(counts.add(early, in: try names(["1.0.0"])).counted == 0)
        #expect(counts.add(early, in: try names(["1.0.0", "1.0.1"])).counted == 1)
        #expect(counts.add(early, in: try names(["1.0.0", "1.0.1"])).counted == 0)
    }

    @Test func `limits numbers to those that the file can store`() throws {
        let most = JSONValue.maximumInteger
        let counter =
            #"{"fact":"started","version":"1.0.0","channel":"stable","route":null,"code":null,"count":\#(most)}"#
        let file =
            #"{"schema":1,"dropped":\#(most),"foreign":\#(most),"repeated":\#(most),"counters":["#
            + (0..<1100).map { _ in counter }.joined(separator: ",") + #"],"ids":[]}"#
        var counts = try ReportCounts(parsing: Array(file.utf8), maximumBytes: 64 << 20)
        let known = try report("1.0.0")
        let names = try names(["1.0.0"])
        _ = counts.add(message([known, try report("9.9.9")], dropped: 1_000_000), in: names)
        _ = counts.add(message([known]), in: names)
        let next = try again(counts)
        #expect([next.dropped, next.foreign, next.repeated] == [most, most, most])
        #expect(next.sorted().map(\.count) == [most])
    }

    @Test func `truncates a file with too many lines or IDs`() throws {
        let counters = (0..<ReportCounts.maximumLines + 7).map {
            #"{"fact":"started","version":"1.\#($0).0","channel":"stable","route":null,"code":null,"count":1}"#
        }
        let ids = (0..<50_000).map { "\"\($0)\"" }
        let file =
            #"{"schema":1,"dropped":0,"foreign":0,"repeated":0,"counters":["# + counters.joined(separator: ",")
            + #"],"ids":["# + ids.joined(separator: ",") + "]}"
        let counts = try ReportCounts(parsing: Array(file.utf8), maximumBytes: 64 << 20)
        #expect(counts.lines.count == ReportCounts.maximumLines)
        #expect(counts.sorted().first?.line.version.description == "1.7.0")
        #expect(counts.json.objectValue?["ids"]?.arrayValue?.count == 16_384)
    }

    @Test func `counts a report of a phone once, however many other reports come between`() throws {
        let names = try names(["1.0.0"])
        let (first, other) = (try report("1.0.0", "stable", .confirmed, nil, nil, .ios), DeviceReport.Platform.android)
        var counts = ReportCounts()
        var phones = SeenReports()
        #expect(counts.add(message([first]), in: names, phones: &phones).counted == 1)
        var counted = 0
        for _ in 0..<50_000 {
            let next = try report("1.0.0", "stable", .confirmed, nil, nil, other)
            counted += counts.add(message([next]), in: names, phones: &phones).counted
        }
        // The filter takes a few new reports for known ones.
        #expect(counted > 49_500)
        #expect(counts.add(message([first]), in: names, phones: &phones).counted == 0)
        let line = Line(channel: "stable", version: try SemanticVersion(parsing: "1.0.0"))
        #expect(counts.lines[line]?[.init(fact: .confirmed, code: nil, route: nil, platform: .ios)] == 1)
        #expect(counts.lines[line]?[.init(fact: .confirmed, code: nil, route: nil)] == nil)
        #expect(counts.json.objectValue?["ids"]?.arrayValue?.isEmpty == true)
        #expect(try again(counts).json == counts.json)

        var stored = try #require(SeenReports(phones.bytes))
        #expect(phones.bytes.count == SeenReports.byteCount && stored.contains(first.id))
        #expect(SeenReports(Array(phones.bytes.dropLast())) == nil)
        // The last hundred thousand reports are remembered, and older ones make room.
        for _ in 0..<900_000 { stored.insert(DeviceReport.randomID()) }
        stored.insert(first.id)
        #expect(stored.contains(first.id) && stored.bytes.count == SeenReports.byteCount)
        let known = (0..<10_000).count { _ in stored.contains(DeviceReport.randomID()) }
        #expect(known < 1200)
    }
}

extension ReportCounts {
    /// Adds a message without the memory of phones.
    fileprivate mutating func add(_ message: ReportMessage, in names: Names) -> Intake {
        var phones = SeenReports()
        return add(message, in: names, phones: &phones)
    }
}
