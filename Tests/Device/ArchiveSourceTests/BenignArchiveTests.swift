import ArchiveSource
import BundleCore
import BundleDisk
import BundleTestTraits
import Testing

@Suite(.ownThread) struct BenignArchiveTests {
    @Test(arguments: try Fixtures.benign())
    func `installs the exact tree of a valid archive`(_ archive: BenignArchive) async throws {
        let device = try Device()

        let report = try await device.install(archive.path, as: "1.0.0") { $0.fileCount = archive.files.count }

        #expect(report.bundle?.path == "\(device.storePath)/clients/v1.0.0")
        let tree = try snapshot(try device.folder.directory("store/clients/v1.0.0"))
        #expect(tree.filter { !$0.key.hasSuffix("/") } == archive.files.mapValues { "644 \($0)" })
        #expect(tree.filter { $0.key.hasSuffix("/") && $0.value != "755" } == [:])
        #expect(try device.folder.directory("store/staging").list() == [])
    }
}
