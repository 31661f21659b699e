// fuzz: max_len=4096
// fuzz: needs=BundleFleet
//
// Reads reports of devices. All labels are fixed words or names from the feed.
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
    require(message.reports.count <= ReportMessage.maximumReports, "the number of reports is limited")
    require(try ReportMessage(parsing: message.bytes) == message, "a message is read as it was written")
    var names = ReportCounts.Names()
    names.channels = ["stable"]
    names.versions = [try SemanticVersion(parsing: "1.0.0")]
    var counts = ReportCounts()
    var phones = SeenReports()
    let counted = counts.add(message, in: names, phones: &phones).counted
    require(counts.add(message, in: names, phones: &phones).counted == 0, "a repeated report is not counted")
    require(
        counts.sorted().map(\.count).reduce(0, +) == counted, "the sum of the counts is the number of counted reports")
    require(
        counts.lines.keys.allSatisfy { names.versions.contains($0.version) && $0.channel ?? "stable" == "stable" },
        "all labels are in the feed")
    let bytes = JSONWriter.bytes(of: counts.json)
    require(
        try ReportCounts(parsing: bytes, maximumBytes: bytes.count) == counts, "counts are read as they were written")
}
