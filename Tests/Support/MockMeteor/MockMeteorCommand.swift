import ArgumentParser

/// A Meteor server for manual tests of hot code push.
@main
struct MockMeteorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "MockMeteor",
        abstract: "A Meteor server for trying hot code push by hand, and a maker of bundles for it.",
        discussion: """
            A demo: swift run MockMeteor --demo --write-seed /tmp/demo-seed
            Its own folders: swift run MockMeteor --port 3000 --folder DIR ...
            """,
        subcommands: [Serve.self, BundleFolder.self], defaultSubcommand: Serve.self)
}
