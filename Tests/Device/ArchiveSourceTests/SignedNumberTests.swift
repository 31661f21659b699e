import ArchiveSource
import BundleCore
import BundleValues
import BundleDisk
import BundleSigning
import Testing

@Suite struct SignedNumberTests {
    static let cases: [(subject: String, code: FailureCode, change: @Sendable (inout Manifest) throws -> Void)] = [
        ("fileCount", .sizeMismatch, { $0.fileCount = 1 }),
        ("fileCount", .sizeMismatch, { $0.fileCount = 3 }),
        ("installedSize", .sizeMismatch, { $0.installedSize = 1000 }),
        ("contentSha256", .digestMismatch, { $0.contentSha256 = try SHA256Digest.of([1]) }),
        ("archive", .digestMismatch, { $0.sha256 = try SHA256Digest.of([1]) }),
        ("archive", .sizeMismatch, { $0.size = ($0.size ?? 0) - 1 }),
        ("archive", .sizeMismatch, { $0.size = ($0.size ?? 0) + 1 }),
    ]

    @Test(arguments: cases.indices) func `rejects an archive that differs from a signed number and keeps the store`(
        _ index: Int
    ) async throws {
        let (subject, code, change) = Self.cases[index]
        let device = try Device()
        try await device.install(try device.tar([]), as: "1.0.0")
        let before = try device.storeSnapshot()
        let path = try device.tar([TarItem("a.js", [1, 2, 3])])
        let refusal = try #require(try await device.refusal(of: path, as: "1.0.1", change))
        #expect(refusal.code == code, "\(refusal)")
        #expect(subject == "archive" || refusal.subject == subject)
        #expect(try device.storeSnapshot() == before)
    }

    @Test func `accepts an archive with the signed numbers in any order of entries`() async throws {
        let sorted = [TarItem("a.js", [1, 2, 3]), TarItem("index.html", [4])]
        let content = try SHA256Digest.of(TarOf.bytes(sorted))
        for items in [sorted, sorted.reversed()] {
            let device = try Device()
            try TarOf.bytes(items).withUnsafeBytes { try device.folder.createFile("tar", with: $0) }
            let report = try await device.install("\(device.folder.path)/tar", as: "1.0.0") {
                ($0.fileCount, $0.installedSize, $0.contentSha256) = (2, 4, content)
            }
            #expect(report.bundle?.entry.contentSha256 == content)
            #expect(report.bundle?.entry.installedSize == 4)
        }
    }

    @Test func `rejects a wrong content digest of an archive out of order`() async throws {
        let device = try Device()
        let path = try device.tar([TarItem("a.js", [1, 2, 3])])
        let refusal = try await device.refusal(of: path, as: "1.0.0") { $0.contentSha256 = try SHA256Digest.of([1]) }
        #expect(refusal?.code == .digestMismatch)
        #expect(refusal?.subject == "contentSha256")
    }
}
