import BundleDisk
import Testing

@testable import BundleCore
import BundleValues

struct StagingAreaTests {
    @Test(arguments: [(0, nil), (Int.max, FailureCode.diskFull)])
    func `it takes no more once less than the reserve is free`(reserve: Int, code: FailureCode?) throws {
        let folder = try TemporaryDirectory()
        let area = StagingArea(
            folder: folder.directory, name: "attempt", tree: try folder.directory.directory(creating: "tree"),
            downloads: try folder.directory.directory(creating: "downloads"), inventory: try Sample.inventory(Ledger()),
            reserveBytes: reserve)
        do {
            try area.requireRoom()
            #expect(code == nil)
        } catch {
            #expect(UpdateFailure(error).code == code)
        }
    }
}
