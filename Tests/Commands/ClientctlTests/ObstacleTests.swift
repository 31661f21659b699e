import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// Clean-up of stores and feeds in which one entry cannot be removed.
@Suite(.ownThread) struct ObstacleTests {
    private let site: Site

    init() throws { site = try Site(under: "/tmp") }

    /// Runs `clientctl` with the folder `place` as a mount point.
    private func run(_ arguments: [String], mountedAt place: String) throws -> Outcome {
        guard let mounts = PrivateMounts.command else { try Test.cancel("nothing can be mounted here") }
        let script = "mount --bind \"$1\" \"$1\" && shift && exec \"$@\""
        return Outcome(
            try Program.run(
                mounts + ["sh", "-c", script, "sh", place, Clientctl.path] + arguments,
                environment: Clientctl.environment()))
    }

    /// Makes a file immutable during `body`.
    private func keeping(_ path: String, _ body: () throws -> Void) throws {
        do { try Clientctl.stock(["chattr", "+i", path]) } catch {
            try Test.cancel("no file can be made immutable here: \(error)")
        }
        // The folder of the file may have been moved.
        defer { _ = try? Clientctl.stock(["chattr", "-R", "-f", "-i", site.store]) }
        try body()
    }

    private func install(_ versions: [String]) throws {
        for version in versions {
            try site.publish(version)
            try site.install(nil, shell: "1.5.0", ["--keep", "9"]).succeeded("installed")
        }
    }

    private func prune() -> [String] { ["prune", "--store", site.store, "--keep", "1", "--json"] }

    private func exists(_ path: String) -> Bool { access("\(site.store)/\(path)", F_OK) == 0 }

    @Test func `prune removes the other clients if one has a mount point`() throws {
        try install(["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"])
        let pruned = try run(prune(), mountedAt: "\(site.store)/clients/v1.0.0/img")
        pruned.succeeded("removed")
        #expect(pruned.errors.contains("img") && pruned.errors.contains("mount point"), "\(pruned.errors)")
        #expect(!exists("clients/v1.1.0") && !exists("clients/v1.0.0/index.html"))
        try Clientctl.run(prune()).succeeded()
        try Clientctl.run(prune()).succeeded("unchanged")
        #expect(!exists("clients/v1.0.0"))
    }

    @Test func `prune removes the other clients if one has an immutable file`() throws {
        try install(["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"])
        try keeping("\(site.store)/clients/v1.0.0/app/main.1.0.0.js") {
            let pruned = try Clientctl.run(prune()).succeeded("removed")
            #expect(pruned.errors.contains("main.1.0.0.js: Operation not permitted"), "\(pruned.errors)")
            #expect(!exists("clients/v1.1.0"))
            let again = try Clientctl.run(prune()).succeeded()
            #expect(again.errors.contains("main.1.0.0.js"), "\(again.errors)")
            try install(["1.5.0"])
        }
        let last = try Clientctl.run(prune()).succeeded()
        #expect(!last.errors.contains("main.1.0.0.js"), "\(last.errors)")
    }

    @Test func `an installation is possible beside an immutable kept download`() throws {
        try install(["1.0.0"])
        let part = try site.folder.write(bytes("x"), to: "store/downloads/\(String(repeating: "0", count: 64)).part")
        try keeping(part) { try install(["1.1.0"]) }
    }

    @Test func `feed prune removes the other releases if one has a mount point`() throws {
        for version in ["1.0.0", "1.1.0", "1.2.0"] { try site.publish(version) }
        let prune = ["feed", "prune", "--feed", site.feed, "--min-age", "0s", "--keep", "1", "--json"]
        let pruned = try run(prune, mountedAt: "\(site.feed)/releases/v1.0.0")
        pruned.failed(31, "permissionDenied")
        #expect(access("\(site.feed)/releases/v1.1.0", F_OK) != 0)
        try Clientctl.run(prune).succeeded()
    }
}
