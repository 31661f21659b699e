import BundleFormats
import ArchiveSource
import BundleArchive
import BundleDisk
import BundleTestTraits
import Glibc
import Testing

@Suite(.ownThread) struct ArchiveListingTests {
    init() throws { try #require(setlocale(LC_CTYPE, "C.UTF-8") != nil) }

    @Test(arguments: try Fixtures.hostile())
    func `reports the rule by which an installation refuses a hostile archive`(_ archive: HostileArchive) throws {
        let listing = try ArchiveListing.read(File.open(reading: archive.path), limits: ArchiveLimits())
        let refusal = try #require(listing.refusal)
        #expect(archive.rules.contains(refusal.rule), "\(refusal.rule) is none of \(archive.rules)")
    }

    @Test(arguments: try Fixtures.benign())
    func `lists every file of a valid archive`(_ archive: BenignArchive) throws {
        let listing = try ArchiveListing.read(File.open(reading: archive.path), limits: ArchiveLimits())
        #expect(listing.refusal == nil)
        #expect(listing.entries.filter { $0.kind == .file }.count == archive.files.count)
    }
}
