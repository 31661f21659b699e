import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// The browsers that tests start end with the tests.
@Suite(
    .serialized, .ownThread,
    .enabled(if: !Engine.installed.isEmpty, "no browser: Scripts/bootstrap --engines installs them"))
struct EngineLifetimeTests {
    private let witness: LoopbackServer

    init() throws { witness = try LoopbackServer { _ in .html("shown") } }

    private func wait(_ trouble: String, until isMet: () throws -> Bool) throws {
        let deadline = ContinuousClock.now + Browser.patience
        while try !isMet() {
            try #require(ContinuousClock.now < deadline, "\(trouble)")
            poll(nil, 0, 20)
        }
    }

    /// Returns the processes with the folder of the browser in their arguments.
    private func processes(_ folder: String) throws -> String {
        try Program.run(["pgrep", "-f", "--", folder], environment: ["PATH": "/usr/bin:/bin"]).text
    }

    @Test(arguments: Engine.installed)
    func `a browser of a test ends when the test releases it`(engine: Engine) throws {
        var browser: RunningEngine? = try RunningEngine(engine, witness.root + "/")
        let folder = try #require(browser?.folder.path)
        try wait("the page is not shown") { !witness.requests.isEmpty }
        #expect(try !processes(folder).isEmpty)
        browser = nil
        try wait("a process of the browser still runs") { try processes(folder).isEmpty }
    }

    @Test(arguments: Engine.installed)
    func `a browser of a test ends after the process of the tests is killed`(engine: Engine) throws {
        let owner = try Program(["sleep", "600"], environment: ["PATH": "/usr/bin:/bin"])
        let browser = try RunningEngine(engine, witness.root + "/", ownedBy: owner.number)
        try wait("the page is not shown: \(browser.errors)") { !witness.requests.isEmpty }
        owner.send(SIGKILL)
        _ = try owner.wait()
        try wait("a process of the browser still runs") { try processes(browser.folder.path).isEmpty }
    }
}
