// fuzz: max_len=4096
// fuzz: needs=BundleFleet
//
// What a device reports: whatever is read becomes labels of closed words and of names that the feed has.
@testable import BundleValues
@testable import BundleFleet

func fuzz(_ input: [UInt8]) throws {
    let message: ReportMessage
    do {
        message = try ReportMessage(parsing: input)
    } catch is JSONError {
        return
    } catch is MemberReader.Refusal {
        return
    }
    require(message.reports.count <= ReportMessage.maximumReports, "reports are counted")
    require(try ReportMessage(parsing: message.bytes) == message, "a message is read as it was written")
    var names = ReportCounts.Names()
    names.channels = ["stable"]
    names.versions = [try SemanticVersion(parsing: "1.0.0")]
    var counts = ReportCounts()
    let counted = counts.add(message, in: names).counted
    require(counts.add(message, in: names).counted == 0, "what came before does not count again")
    require(counts.sorted().map(\.count).reduce(0, +) == counted, "what counts is a sum")
    require(
        counts.lines.keys.allSatisfy { names.versions.contains($0.version) && $0.channel ?? "stable" == "stable" },
        "only what the feed has is a label")
    let bytes = JSONWriter.bytes(of: counts.json)
    require(
        try ReportCounts(parsing: bytes, maximumBytes: bytes.count) == counts, "counts are read as they were written")
}
