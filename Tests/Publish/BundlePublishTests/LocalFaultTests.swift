import BundleArchive
import BundleDisk
import BundleValues
import Glibc
import Testing

import BundleFormats
@testable import BundlePublish

/// Failures of this machine are classified as local.
@Suite("Local failures") struct LocalFaultTests {
    @Test func `reports a lack of memory as a local failure`() {
        let failure = UpdateFailure(CompressionFailure.memory)
        #expect(failure.code == .resourcesExhausted)
        #expect(failure.message.contains("Free memory"))
        #expect(UpdateFailure(CompressionFailure.library("Src size is incorrect")).code == .internal)
    }

    @Test func `reports a file size limit as a local failure`() {
        let failure = DiskError("write", at: "a", code: EFBIG).failure
        #expect(failure.code == .resourcesExhausted)
        #expect(failure.message.contains("LimitFSIZE="))
        #expect(DiskError("write", at: "a", code: ENOSPC).failure.code == .diskFull)
    }

    @Test func `reports an unreadable file as a local failure, not as a network failure`() throws {
        let file = try FetchURL(filePath: Array("/media/stick/manifest.json".utf8))
        let failure = FetchError.unreachable(file, reason: "Input/output error").description
        #expect(failure.contains("disk") && !failure.contains("network"))
        let far = try FetchURL(parsing: "https://updates.example.com/manifest.json")
        #expect(FetchError.unreachable(far, reason: "no route").description.contains("network"))
    }
}
