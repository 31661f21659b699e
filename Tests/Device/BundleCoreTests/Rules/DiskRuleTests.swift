import BundleDisk
import Testing

@testable import BundleCore

struct DiskRuleTests {
    private static let mebibyte = 1 << 20
    /// 10 GiB, so that the reserve is 64 MiB.
    private static func space(free: Int, files: Int? = nil) -> FreeSpace {
        FreeSpace(bytes: free, totalBytes: 10 << 30, blockBytes: 4096, files: files)
    }

    private static func refusal(
        _ footprint: Footprint, _ space: FreeSpace, reusableBytes: Int = 0, reusableFiles: Int = 0, downloaded: Int = 0
    ) -> String? {
        DiskRule.refusal(
            footprint, space: space, reusableBytes: reusableBytes, reusableFiles: reusableFiles,
            downloadedBytes: downloaded)
    }

    @Test(arguments: [(10 << 30, 64 << 20), (1_342_177_280, 64 << 20), (1_000_000, 50_000), (0, 0)])
    func `reserves 64 MiB, or a twentieth of a smaller disk`(total: Int, reserve: Int) {
        #expect(
            DiskRule.reserveBytes(FreeSpace(bytes: 0, totalBytes: total, blockBytes: 512, files: nil)) == reserve)
    }

    @Test func `requires space for download, content, half a block per file and the reserve`() {
        let footprint = Footprint(downloadBytes: 1000, installedBytes: 5000, fileCount: 3)
        let needed = 1000 + 5000 + 3 * 2048 + 64 * Self.mebibyte
        #expect(Self.refusal(footprint, Self.space(free: needed)) == nil)
        #expect(
            Self.refusal(footprint, Self.space(free: needed - 1)) == "67.1 MB are needed, 67.1 MB are free")
    }

    @Test func `does not count content of the largest client or downloaded bytes twice`() {
        let footprint = Footprint(downloadBytes: 1000, installedBytes: 5000, fileCount: 3)
        let least = 400 + 2000 + 1 * 2048 + 64 * Self.mebibyte
        func refusal(_ free: Int) -> String? {
            Self.refusal(footprint, Self.space(free: free), reusableBytes: 3000, reusableFiles: 2, downloaded: 600)
        }
        #expect(refusal(least) == nil)
        #expect(refusal(least - 1) != nil)
        // Content beyond that of the release is ignored.
        let reserve = 64 * Self.mebibyte
        func surplus(_ free: Int) -> String? {
            Self.refusal(footprint, Self.space(free: free), reusableBytes: 9000, reusableFiles: 9, downloaded: 9000)
        }
        #expect(surplus(reserve) == nil)
        #expect(surplus(reserve - 1) != nil)
    }

    @Test func `counts an unknown size as zero`() {
        let unknown = Footprint(downloadBytes: nil, installedBytes: nil, fileCount: nil)
        #expect(Self.refusal(unknown, Self.space(free: 64 * Self.mebibyte)) == nil)
        #expect(Self.refusal(unknown, Self.space(free: 64 * Self.mebibyte - 1)) != nil)
    }

    @Test(arguments: [
        Footprint(downloadBytes: .max, installedBytes: nil, fileCount: nil),
        Footprint(downloadBytes: nil, installedBytes: .max, fileCount: nil),
        Footprint(downloadBytes: nil, installedBytes: nil, fileCount: .max),
        Footprint(downloadBytes: .max, installedBytes: .max, fileCount: .max),
    ])
    func `does not overflow for the largest numbers`(footprint: Footprint) {
        #expect(Self.refusal(footprint, Self.space(free: Int.max - 1)) != nil)
    }

    @Test func `requires free files if the file system limits them`() {
        let footprint = Footprint(downloadBytes: 0, installedBytes: 0, fileCount: 10)
        let plenty = 1 << 30
        #expect(Self.refusal(footprint, Self.space(free: plenty, files: 10)) == nil)
        #expect(
            Self.refusal(footprint, Self.space(free: plenty, files: 9))
                == "10 files are needed, 9 more are possible")
        #expect(Self.refusal(footprint, Self.space(free: plenty, files: 9), reusableFiles: 1) == nil)
        #expect(Self.refusal(footprint, Self.space(free: plenty, files: nil)) == nil)
    }
}
