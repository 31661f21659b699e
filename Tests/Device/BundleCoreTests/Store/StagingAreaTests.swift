import BundleDisk
import BundleTesting
import Glibc
import Testing

@testable import BundleCore
import BundleValues

struct StagingAreaTests {
    @Test(arguments: [(0, nil), (Int.max, FailureCode.diskFull)])
    func `stops when less than the reserve is free`(reserve: Int, code: FailureCode?) throws {
        let folder = try TemporaryDirectory.ofTests()
        let area = StagingArea(
            folder: folder.directory, name: "attempt", tree: try folder.directory.directory(creating: "tree"),
            downloads: try folder.directory.directory(creating: "downloads"), inventory: try Sample.inventory(Ledger()),
            reserveBytes: reserve, hasSeedRoot: false)
        do {
            try area.requireRoom()
            #expect(code == nil)
        } catch {
            #expect(UpdateFailure(error).code == code)
        }
    }

    /// The seed is on another disk and has a file that fits on no disk.
    @Test(arguments: [(false, FailureCode.diskFull), (true, nil)])
    func `counts a seed that cannot be linked until it is extracted`(isExtracted: Bool, code: FailureCode?) throws {
        let folder = try TemporaryDirectory.ofTests()
        guard let elsewhere = try TemporaryFolder(elsewhereThan: folder.directory.path) else {
            try Test.cancel("there is one file system only")
        }
        let seed = try elsewhere.writeTree(["index.html": [1], "media/video": [2]], to: "seed")
        var disk = statvfs()
        try #require(statvfs(folder.directory.path, &disk) == 0)
        let size = Int(disk.f_blocks * disk.f_frsize) + 1 << 30
        guard truncate("\(seed)/media/video", size) == 0 else { try Test.cancel("no file may be that large there") }
        let area = StagingArea(
            folder: folder.directory, name: "attempt", tree: try folder.directory.directory(creating: "tree"),
            downloads: try folder.directory.directory(creating: "downloads"), inventory: try Sample.inventory(Ledger()),
            reserveBytes: 0, hasSeedRoot: isExtracted)
        let footprint = Footprint(downloadBytes: nil, installedBytes: 1, fileCount: 1)
        do {
            try area.requireRoom(for: footprint, inheriting: SeedFolder(at: seed, layout: nil))
            #expect(code == nil)
        } catch {
            #expect(UpdateFailure(error).code == code)
        }
        #expect(try folder.directory.list().sorted() == ["downloads", "tree"])
        try area.requireRoom(for: footprint, inheriting: nil)
    }
}
