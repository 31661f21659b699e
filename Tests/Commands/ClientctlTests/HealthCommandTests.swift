import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// `serve --health-command`, which never runs as root.
@Suite(.ownThread) struct HealthCommandTests {
    private static let user = ["setpriv", "--reuid", "4321", "--clear-groups"]

    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        try Clientctl.stock(["chmod", "a+rx", "\(site.folder.path)/.."])
        try Clientctl.stock(["chmod", "-R", "a+rX", site.folder.path])
        if Clientctl.isRoot { try Clientctl.stock(["chown", "-R", "4321", site.store]) }
    }

    private func serve(_ command: String) throws -> ServeRun {
        try ServeRun(
            ["--store", site.store, "--shell-version", "1.5.0", "--health-command", command],
            wrapper: Clientctl.isRoot ? Self.user : [])
    }

    private func status() throws -> Outcome { try Clientctl.run(["status", "--store", site.store, "--json"]) }

    private func verdict() throws -> String? { try status()["launch"]?.objectValue?["verdict"]?.stringValue }

    @Test func `confirms a client after the health command ends with 0`() throws {
        let gate = "\(site.store)/healthy"
        let serve = try serve("sh -c 'test $CLIENTCTL_VERSION = 1.0.0; until test -e \(gate); do sleep 0.1; done'")
        #expect(try serve.call("startupDidComplete", token: serve.loadPage()).status == 200)
        #expect(try verdict() == nil)
        try Clientctl.stock(["touch", gate])
        try serve.wait(for: "the confirmation") { _ in (try? verdict()) == "good" }
        try serve.stop()
    }

    @Test func `fails a client with the last line of the health command`() throws {
        let serve = try serve("sh -c 'echo checking; echo the card reader is missing; exit 4'")
        try serve.call("startupDidComplete", token: serve.loadPage())
        try serve.wait(for: "the failure") { _ in (try? verdict()) == "faulty" }
        let shown = try Clientctl.run(["status", "--store", site.store])
        #expect(
            shown.text.contains("the health command ended with status 4: the card reader is missing"), "\(shown.text)")
        try serve.stop()
    }

    @Test(.enabled(if: Clientctl.isRoot, "only root can try")) func `serve refuses a health command as root`() throws {
        let refused = try Clientctl.run([
            "serve", "--store", site.store, "--shell-version", "1.5.0", "--health-command", "true", "--json",
        ])
        refused.failed(78, "configInvalid")
        let missing = try Program.run(
            Self.user + [
                Clientctl.path, "serve", "--store", site.store, "--shell-version", "1.5.0", "--health-command",
                "no-such-program",
            ], environment: Clientctl.environment())
        #expect(missing.status == 78 && missing.errors.contains("there is no program no-such-program"))
    }
}
