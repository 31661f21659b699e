import BundleValues
import ArchiveSource
import BundleCore
import BundleDisk
import BundleTestTraits
import Testing

@Suite(.ownThread) struct HostileArchiveTests {
    static let good = "\(Fixtures.root)/benign/tar-plain.tar"

    @Test(arguments: try Fixtures.hostile())
    func `rejects a hostile archive by one of its rules and keeps the store`(_ archive: HostileArchive) async throws {
        let device = try Device()
        try await device.install(Self.good, as: "1.0.0")
        let before = try device.storeSnapshot()

        let refusal = try #require(try await device.refusal(of: archive.path, as: "1.0.1"))

        #expect(refusal.code == .archiveRejected, "\(refusal)")
        #expect(
            archive.rules.contains { refusal.subject == $0 || refusal.subject.hasPrefix("\($0): ") },
            "\(refusal.subject) is none of \(archive.rules): \(refusal)")
        #expect(try device.storeSnapshot() == before)
        #expect(before["staging/"] == "700")
        #expect(before.keys.filter { $0.hasPrefix("staging/") } == ["staging/"])
    }

    @Test func `finds all fixtures`() throws {
        #expect(try Fixtures.hostile().count == 411)
        #expect(try Fixtures.benign().count == 88)
    }
}
