import ArchiveChannel
import ArgumentParser
import BundleCore
import BundleDisk
import BundleSigning

/// `clientctl verify`.
struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Checks a manifest and its archive; with --rebuild, that a folder is what was released.",
        discussion: """
            Examples:
              clientctl verify https://updates.example.com/manifest.json \\
                --trust release.pub.pem
              clientctl verify feed/releases/v1.5.0/manifest.json \\
                --trust release.pub.pem --rebuild dist
            """)

    @Argument(help: "The manifest: a URL or a path.")
    var source: String

    @Option(help: ArgumentHelp("A PEM public key, or a folder of *.pem.", valueName: "path"))
    var trust: String?

    @Option(help: ArgumentHelp("A folder to compare with what was released.", valueName: "dir"))
    var rebuild: String?

    @OptionGroup var network: NetworkOptions
    @OptionGroup var limits: LimitOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.settings()
        let url = try Wiring.url(source)
        let temporary = try TemporaryDirectory()
        let report = try await ReleaseVerifier(
            manifestURL: url, trusted: try TrustedKeys.read(at: try settings.required("trust", trust)),
            limits: try limits.limits(settings), fetcher: try Wiring.fetcher(network, for: url, settings),
            scratch: temporary.directory
        ).verify()
        if let rebuild { try ReleaseVerifier.require(try Directory.open(rebuild), rebuilds: report) }
        let manifest = report.manifest.manifest
        Answer.give(
            json: try settings.isOn("json", common.json),
            [
                "outcome": .string("verified"), "version": .string(manifest.version.description),
                "keyId": .string(report.manifest.key.id), "sha256": .string(manifest.sha256.hex),
                "contentSha256": .string(report.contentSha256.hex), "rebuilt": .bool(rebuild != nil),
            ],
            [
                "verified \(manifest.version): signed by \(report.manifest.key.algorithm.rawValue) key \(report.manifest.key.id)",
                "  archive  sha256 \(manifest.sha256.hex)", "  content  sha256 \(report.contentSha256.hex)",
            ] + (rebuild.map { ["  \($0) is what was released"] } ?? []))
    }
}
