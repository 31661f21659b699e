import BundleCore
import BundleDisk
import BundleTestTraits
import BundleTesting
import Glibc
import MeteorSource
import MeteorTesting
import Testing

/// Tests that damage to the store between two runs does not prevent the next version.
@Suite("Hot code push: damaged stores", .ownThread)
struct HealingTests {
    private func spoil(_ path: String, _ content: String?) throws {
        #expect(unlink(path) == 0)
        if let content {
            let folder = try Directory.open(String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)]))
            try Array(content.utf8).withUnsafeBytes {
                try folder.createFile(String(path.split(separator: "/").last ?? ""), with: $0)
            }
        }
    }

    @Test(
        "removes a damaged bundle at its launch, and the next check installs it again",
        arguments: [
            ("meteor/version2/program.json", "{}"), ("meteor/version2/program.json", nil),
            ("meteor/version2/index.html", nil), ("receipts/meteor-version2.json", nil),
            ("receipts/meteor-version2.json", "[]"),
        ] as [(String, String?)])
    func damagedBundle(path: String, content: String?) async throws {
        let (device, _) = try PushedDevice.cordova()
        try device.restart()
        try device.server.serve(version: "version2")
        try await device.update()
        try spoil("\(device.store)/\(path)", content)

        try device.reload()
        #expect(try device.pageVersion() == "version1")
        guard case .installed = try await device.update() else {
            Issue.record("it was not brought anew")
            return
        }
        try device.reload()
        #expect(try device.pageVersion() == "version2")
        #expect(try device.served("/some-file") == Array("some-file (changed)\n".utf8))
    }

    @Test("replaces a file at the path of a serving root")
    func fileInPlaceOfRoot() async throws {
        let (device, _) = try PushedDevice.cordova()
        try device.restart()
        try device.server.serve(version: "version2")
        try await device.update()
        try Array("x".utf8).withUnsafeBytes {
            try Directory.open("\(device.store)/serving").createFile("meteor-version2", with: $0)
        }
        try device.reload()
        #expect(try device.pageVersion() == "version2")
    }

    @Test("ignores a file at the path of an interrupted download")
    func fileInPlaceOfInterrupted() async throws {
        let (device, _) = try PushedDevice.cordova()
        try device.restart()
        try device.server.serve(version: "version2")
        try Array("x".utf8).withUnsafeBytes {
            try Directory.open("\(device.store)/downloads").createFile("interrupted", with: $0)
        }
        try await device.update()
        #expect(try device.versionsOnDisk() == ["version2"])
    }
}
