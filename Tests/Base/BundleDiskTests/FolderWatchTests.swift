import BundleDisk
import BundleTesting
import Testing

@Suite("FolderWatch") struct FolderWatchTests {
    let sandbox: Sandbox
    let watch: FolderWatch
    var folder: Directory { sandbox.inside }

    init() throws {
        sandbox = try Sandbox()
        watch = try FolderWatch()
    }

    @Test func `reports a written, renamed or removed file`() throws {
        #expect(watch.watch(folder))
        #expect(watch.wait(milliseconds: 0) == .timedOut)
        try folder.write("a", "text")
        #expect(watch.wait(milliseconds: 60_000) == .changed)
        #expect(watch.wait(milliseconds: 0) == .timedOut)
        try folder.replaceFile("a", with: Array("other".utf8))
        #expect(watch.wait(milliseconds: 60_000) == .changed)
        try folder.removeFile("a")
        #expect(watch.wait(milliseconds: 60_000) == .changed)
    }

    @Test func `ignores folders that it does not watch`() throws {
        watch.watch(try folder.directory(creating: "watched"))
        try folder.write("a", "text")
        #expect(watch.wait(milliseconds: 50) == .timedOut)
    }

    @Test func `ends a wait when it is woken before or during it`() throws {
        watch.wake()
        #expect(watch.wait(milliseconds: 60_000) == .woken)
        #expect(watch.wait(milliseconds: 0) == .timedOut)
    }
}
