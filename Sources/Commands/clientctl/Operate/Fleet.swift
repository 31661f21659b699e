import ArgumentParser

struct Fleet: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "List devices, show what they report about releases, and let the reports decide about a rollout.",
        discussion: """
            Examples:
              clientctl fleet list --roster https://updates.example.com/roster --silent 24h
              clientctl fleet insights --version 1.5.1 --feed feed --channel stable \\
                --prometheus http://127.0.0.1:9090
              clientctl fleet page --out page.html --feed feed --trust trust.json
            """,
        subcommands: [
            FleetList.self, FleetShow.self, FleetForget.self, FleetGuard.self, FleetWatch.self, FleetInsights.self,
            FleetPage.self,
        ])
}
