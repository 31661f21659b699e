import BundleArchive
import BundleDisk
import BundleValues
import Glibc
import Testing

/// What this machine lacks is told as that, and not as somebody else's fault.
@Suite struct LocalFaultTests {
    @Test func `too little memory to compress`() {
        let told = UpdateFailure(CompressionFailure.memory)
        #expect(told.code == .resourcesExhausted)
        #expect(told.message.contains("Free memory"))
        #expect(UpdateFailure(CompressionFailure.library("Src size is incorrect")).code == .internal)
    }

    @Test func `a file that may not grow`() {
        let told = DiskError("write", "a", code: EFBIG).failure
        #expect(told.code == .resourcesExhausted)
        #expect(told.message.contains("LimitFSIZE="))
        #expect(DiskError("write", "a", code: ENOSPC).failure.code == .diskFull)
    }

    @Test func `a file that cannot be read is not the network's fault`() throws {
        let file = try FetchURL(filePath: Array("/media/stick/manifest.json".utf8))
        let told = FetchError.unreachable(file, reason: "Input/output error").description
        #expect(told.contains("disk") && !told.contains("network"))
        let far = try FetchURL(parsing: "https://updates.example.com/manifest.json")
        #expect(FetchError.unreachable(far, reason: "no route").description.contains("network"))
    }
}
