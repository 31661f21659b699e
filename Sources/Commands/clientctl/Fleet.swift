import ArgumentParser

struct Fleet: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "Show what devices report about releases, and let the reports decide about a rollout.",
        discussion: """
            Examples:
              clientctl fleet insights --version 1.5.1 --feed feed --channel stable \\
                --prometheus http://127.0.0.1:9090
              clientctl fleet page --out page.html --feed feed --trust trust.json
            """,
        subcommands: [FleetGuard.self, FleetInsights.self, FleetPage.self])
}
