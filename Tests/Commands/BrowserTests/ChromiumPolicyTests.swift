import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// An `/etc/chromium` for one program.
private enum PrivatePolicies {
    static let unshare = ["unshare", "-m", "--propagation", "private"]
    static let folder = "/etc/chromium"

    static var areAvailable: Bool {
        if access("/usr/bin/xvfb-run", X_OK) != 0 { return false }
        let mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
        return (try? Program.run(unshare + mount, environment: ["PATH": "/usr/bin:/bin"]).status) == 0
    }
}

/// The policies for Chromium that the package installs, in a Chromium that reads them.
@Suite(.ownThread, .needsBrowser, .enabled(if: PrivatePolicies.areAvailable, "no xvfb-run, or this user cannot mount"))
struct ChromiumPolicyTests {
    let folder: TemporaryFolder
    let witness: LoopbackServer

    init() throws {
        folder = try TemporaryFolder()
        witness = try LoopbackServer { _ in .html("<script>setInterval(() => fetch('/alive'), 100)</script>") }
    }

    /// Starts a Chromium that loads a file and a page of `witness`. Without a screen it loads one address only.
    private func start(_ mount: String) throws -> Program {
        let page = try folder.write(bytes("<img src='\(witness.root)/file'>"), to: "page.html")
        let program = try Engine.chromium.program(in: folder)
        let script =
            "\(mount) sed -i \"s/'--headless=new'//\" \(program) && exec timeout -s KILL 280 xvfb-run -a \(program) \(folder.file("profile")) 'file://\(page)' '\(witness.root)/page'"
        return try Program(PrivatePolicies.unshare + ["sh", "-c", script], environment: ["PATH": "/usr/bin:/bin"])
    }

    private func wait(_ trouble: String, until isMet: () -> Bool) throws {
        let deadline = ContinuousClock.now + Browser.patience
        while !isMet() {
            try #require(ContinuousClock.now < deadline, "\(trouble): \(witness.requests.map(\.target))")
            poll(nil, 0, 20)
        }
    }

    private func count(_ target: String) -> Int { witness.requests.count { $0.target == target } }

    @Test func `Chromium with the policies of the package shows no file of the machine`() throws {
        try folder.makeFolder("etc/policies/managed")
        let file = "\(Checkout.root)/Scripts/package.d/clientctl-kiosk/chromium-policies.json"
        try folder.write(try contents(ofFile: file), to: "etc/policies/managed/clientctl.json")
        let managed = try start("mount --bind \(folder.file("etc")) \(PrivatePolicies.folder) &&")
        try wait("Chromium shows no page") { count("/alive") >= 20 }
        #expect(count("/file") == 0)
        managed.send(SIGTERM)
        _ = try managed.wait(within: Browser.patience)
        let free = try start("")
        try wait("Chromium without policies shows no file") { count("/file") > 0 }
        free.send(SIGTERM)
        _ = try free.wait(within: Browser.patience)
    }
}
