import BundleTestTraits
import BundleTesting
import Testing

/// Output that is lost to a full disk or a closed pipe.
@Suite(.ownThread) struct LostOutputTests {
    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
    }

    /// Runs `clientctl` with an output that accepts no bytes, and expects `status`.
    private func lose(_ arguments: [String], expecting status: Int32) throws {
        let command = "\"$0\" \"$@\" > /dev/full"
        try Clientctl.stock(["sh", "-c", command, Clientctl.path] + arguments, expecting: status)
    }

    @Test func `list fails when its output is lost`() throws {
        try lose(["list", "--store", site.store], expecting: 1)
        try lose(["list", "--store", site.store, "--json"], expecting: 1)
    }

    @Test func `install succeeds when only its output is lost`() throws {
        try lose(
            [
                "install", "--manifest", site.manifest, "--trust", site.trust, "--store", site.store, "--shell-version",
                "1.5.0",
            ],
            expecting: 0)
        #expect(try site.list().strings("versions") == ["embedded", "v1.0.0"])
    }
}
