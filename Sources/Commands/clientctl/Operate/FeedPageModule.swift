import ArchiveSource
import BundleFormats
import ArgumentParser
import BundleFleet
import BundleValues

struct FeedPageModule: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "page-module",
        abstract: "Write the JavaScript module with which a phone app updates from a static feed.",
        discussion: """
            The module verifies the feed in the app with the keys of --trust, chooses a
            release as every device does, and downloads it with Capgo's plugin. It needs
            no server, only the feed on a static host that allows requests of other
            origins. Import it in the app and build the app with it. It does not follow
            new trust roots: after a change of keys, publish the app with a new module.

            Example:
              clientctl feed page-module src/updates.mjs --trust trust.json
            """)

    @Argument(help: "The file to write.", completion: .file(extensions: ["mjs"]))
    var out: String

    @Option(
        help: ArgumentHelp(
            "(required) Key, folder of keys or trust root that the app trusts, all Ed25519.", valueName: "path"),
        completion: .file())
    var trust: String?

    @OptionGroup var common: CommonOptions

    func run() throws {
        let anchor = try TrustAnchor.read(at: FlagValue.required(trust, of: "trust"))
        let text = try PageModule.text(trusting: anchor, at: .now)
        try PageFile(out).write(Array(text.utf8))
        Output.give(
            json: common.json, afterChange: true, ["file": .string(out), "bytes": .integer(text.utf8.count)],
            lines: ["wrote \(out)"])
    }
}
