import BundleDisk
import BundleTesting
import Testing

@Suite struct `A folder watch` {
    let sandbox: Sandbox
    let watch: FolderWatch
    var folder: Directory { sandbox.inside }

    init() throws {
        sandbox = try Sandbox()
        watch = try FolderWatch()
    }

    @Test func `hears of a file that is written, renamed or removed`() throws {
        #expect(watch.watch(folder))
        #expect(watch.wait(milliseconds: 0) == .timeOver)
        try folder.write("a", "text")
        #expect(watch.wait(milliseconds: 60_000) == .changed)
        #expect(watch.wait(milliseconds: 0) == .timeOver)
        try folder.replaceFile("a", with: Array("other".utf8))
        #expect(watch.wait(milliseconds: 60_000) == .changed)
        try folder.removeFile("a")
        #expect(watch.wait(milliseconds: 60_000) == .changed)
    }

    @Test func `hears nothing of folders that it does not watch`() throws {
        watch.watch(try folder.directory(creating: "watched"))
        try folder.write("a", "text")
        #expect(watch.wait(milliseconds: 50) == .timeOver)
    }

    @Test func `ends its waiting when it is woken, before or meanwhile`() throws {
        watch.wake()
        #expect(watch.wait(milliseconds: 60_000) == .woken)
        #expect(watch.wait(milliseconds: 0) == .timeOver)
    }
}
