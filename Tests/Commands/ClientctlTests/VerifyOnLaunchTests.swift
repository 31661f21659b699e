import BundleCore
import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// A shell that compares every file before it shows a client.
@Suite(.ownThread) struct VerifyOnLaunchTests {
    private func inode(_ path: String) throws -> UInt {
        var status = stat()
        try #require(stat(path, &status) == 0, "\(path)")
        return UInt(status.st_ino)
    }

    @Test func `verifying the shown client keeps its serving files in place`() throws {
        let site = try Site()
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let device = Launcher.LaunchDevice(
            store: site.store, shell: try SemanticVersion(parsing: "1.5.0"), seed: nil, verifies: true)
        let launcher = try Launcher(device, environment: Environment())
        var shown: ReadyClient? = try launcher.prepare().client
        let name = try #require(shown?.name)
        let path = try #require(shown?.root.path)
        let before = try inode(path)
        #expect(try launcher.ready(name)?.root.path == path)
        #expect(try inode(path) == before)
        shown = nil
        unlink("\(path)/app/shared.js")
        _ = try launcher.ready(name)
        #expect(access("\(path)/app/shared.js", R_OK) == 0)
    }
}
