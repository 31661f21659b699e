import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

/// `--quiet` and `--verbose`.
@Suite(.ownThread) struct OutputDetailTests {
    private let site: Site
    private let server: LoopbackServer

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
        server = try LoopbackServer(folder: site.feed)
    }

    /// Installs without `--json`.
    private func install(_ path: String, _ flags: [String]) throws -> Outcome {
        let arguments = try site.arguments("install", server.url(path).display, flags)
        return try Clientctl.run(arguments.filter { $0 != "--json" })
    }

    @Test(arguments: ["-q", "--quiet"])
    func `a quiet command prints its result, and nothing else but errors`(flag: String) throws {
        let failed = try install("/missing.json", [flag])
        #expect(failed.status != 0 && failed.text.isEmpty)
        #expect(failed.errors.hasPrefix("error[httpStatus]: "), "\(failed.errors)")
        let installed = try install("/manifest.json", [flag])
        #expect(installed.status == 0 && installed.text.hasPrefix("installed 1.0.0"), "\(installed.text)")
        #expect(installed.errors == "")
    }

    @Test func `a quiet command prints no note, but its warnings`() throws {
        func publish(_ flags: String...) throws -> String {
            let new = try TemporaryFolder()
            let source = site.folder.file("web-1.0.0")
            return try Clientctl.run(
                ["publish", source, "--version", "2.0.0-beta.1", "--feed", new.file("feed"), "--key", site.key] + flags
            ).errors
        }
        #expect(try publish().contains("is a new feed"))
        let quiet = try publish("-q")
        #expect(!quiet.contains("is a new feed") && quiet.contains("is a pre-release"), "\(quiet)")
    }

    @Test(arguments: ["-v", "--verbose"])
    func `a verbose command prints each request with its result`(flag: String) throws {
        let failed = try install("/missing.json", [flag])
        let missing = try "GET \(server.url("/missing.json").display): status 404, "
        #expect(failed.errors.contains(missing), "\(failed.errors)")
        let installed = try install("/manifest.json", [flag])
        #expect(installed.status == 0)
        for path in ["/manifest.json", "/releases/v1.0.0/client-v1.0.0.tar.zst"] {
            let request = try "clientctl: GET \(server.url(path).display): status 200, "
            #expect(installed.errors.contains(request), "\(installed.errors)")
        }
        #expect(try !install("/manifest.json", []).errors.contains("GET "))
    }

    @Test func `a verbose command prints URLs without their query, which can have a secret`() throws {
        let installed = try install("/manifest.json?token=hidden", ["--verbose"])
        #expect(installed.errors.contains("GET "))
        #expect(!installed.errors.contains("hidden"), "\(installed.errors)")
    }

    @Test func `--quiet and --verbose exclude each other`() throws {
        let refused = try install("/manifest.json", ["-q", "-v"])
        #expect(refused.status == 64)
        #expect(refused.errors.contains("--quiet and --verbose exclude each other: leave one out."))
        let set = try Clientctl.run(
            site.arguments("check", try server.url("/manifest.json").display, ["-v"]),
            environment: ["CLIENTCTL_QUIET": "1"])
        #expect(set.errors.contains("GET "), "\(set.errors)")
    }
}
