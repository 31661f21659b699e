import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// A stopped run may have written everything except its last sync. A run that reports finished work as unchanged makes
/// it durable first. `Scripts/prove/faults --kinds again` tests the state after a power cut.
@Suite(.ownThread, .enabled(if: Strace.works, "no strace, or it may not trace: Scripts/bootstrap installs it"))
struct DurableOutputTests {
    private let site: Site

    init() throws { site = try Site() }

    /// Runs `clientctl` and returns the paths that it synced.
    private func synced(_ arguments: [String]) throws -> [String] {
        let trace = site.folder.file("trace")
        try Clientctl.stock(
            ["strace", "-f", "-y", "-qq", "-o", trace, "-e", "trace=fsync,fdatasync,syncfs", Clientctl.path] + arguments
        )
        let paths = try Clientctl.stock(["sed", "-n", "s/^.*sync([0-9]*<\\([^>]*\\)>.*$/\\1/p", trace])
        return paths.split(separator: "\n").map(String.init)
    }

    @Test func `publish syncs the feed when the release is already published`() throws {
        try site.publish("1.0.0")
        let again = [
            "publish", site.folder.file("web-1.0.0"), "--version", "1.0.0", "--feed", site.feed, "--key", site.key,
            "--min-shell", "1.0.0", "--level", "1",
        ]
        let paths = try synced(again)
        #expect(paths.contains { $0.hasSuffix("/releases") })
        #expect(paths.contains { site.feed.hasSuffix($0) || $0.hasSuffix(site.feed) })
    }

    @Test func `install syncs the store when the release is already installed`() throws {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let again = [
            "install", "--manifest", site.manifest, "--trust", site.trust, "--store", site.store, "--shell-version",
            "1.5.0", "--json",
        ]
        #expect(try synced(again).contains { $0.hasSuffix(site.store) })
    }

    @Test func `unblock syncs the store when the client is not blocked`() throws {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let paths = try synced(["unblock", "--version", "1.0.0", "--store", site.store])
        #expect(paths.contains { $0.hasSuffix(site.store) })
    }
}

enum Strace {
    static let works: Bool =
        (try? Program.run(["strace", "-o", "/dev/null", "true"], environment: Clientctl.environment()).status) == 0
}
