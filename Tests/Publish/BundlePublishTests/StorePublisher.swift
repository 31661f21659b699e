import ArchiveSource
import BundleCore
import BundleTesting
import BundleValues
import Testing

@testable import BundlePublish

/// Publishes two versions of a client to an object store, like `clientctl publish --channel stable`, always with the
/// same bytes.
final class StorePublisher {
    let workspace: Workspace
    let store: Store
    private var sources: [String: String] = [:]

    init(_ store: Store) throws {
        workspace = try Workspace()
        self.store = store
        var generator = SeededGenerator(seed: 1)
        let lines = (0..<800).map { _ in "const v\(UInt64.random(in: .min ... .max, using: &generator)) = 1;\n" }
        for version in ["1.0.0", "1.1.0"] {
            sources[version] = try workspace.folder.writeTree(
                [
                    "index.html": Array("<!doctype html><title>x</title>\n".utf8),
                    "app.js": Array((lines.joined() + "// \(version)\n").utf8),
                ], to: "web-\(version)")
        }
    }

    @discardableResult
    func publish(_ version: String, attempts: Int = 1, isDryRun: Bool = false) throws -> ReleaseReport {
        var options = ReleaseOptions(
            version: try workspace.version(version), shells: try ShellRange(minimum: workspace.version("1.0.0")),
            createdAt: workspace.start)
        options.appId = "com.example.kiosk"
        options.level = 1
        options.windowLog = 20
        options.deltas = DeltaTerms()
        options.isDryRun = isDryRun
        var terms = workspace.terms()
        terms.isDryRun = isDryRun
        if version == "1.0.0" { terms.firstSequence = 1 }
        let builder = ReleaseBuilder(options, feed: try store.location(attempts: attempts), report: UpdateObserver())
        return try builder.publish(
            builder.inspect(try #require(sources[version])), signers: [workspace.release],
            to: ChannelPlan("stable", rollout: nil, terms: terms))
    }
}
