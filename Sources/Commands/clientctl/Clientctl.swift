import ArgumentParser

/// The command line; every subcommand parses, calls one thing and prints the outcome.
struct Clientctl: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clientctl",
        abstract: "Publishes web clients as signed archives, and installs them on devices.",
        discussion: """
            A release engineer:
              clientctl keys generate --out release
              clientctl publish dist --version 1.5.0 --feed feed \\
                --key release.key.pem --min-shell 1.0.0
            A device:
              clientctl install --trust release.pub.pem \\
                --manifest https://updates.example.com/manifest.json \\
                --store /var/lib/kiosk --shell-version 1.2.0
              clientctl list --store /var/lib/kiosk

            Every flag can come from the JSON file named by --config (default
            /etc/clientctl.json, then $XDG_CONFIG_HOME/clientctl.json), as in
            {"store": "/var/lib/kiosk", "shell-version": "1.2.0"}, or from the
            environment, as CLIENTCTL_STORE and CLIENTCTL_SHELL_VERSION. Flags win
            over the environment, the environment over the file. A variable or a key that
            is no flag is refused. `clientctl --version` shows this program's version.

            \(ExitTable.text)
            """,
        subcommands: [
            Keys.self, Trust.self, Publish.self, Release.self, Inspect.self, Verify.self, Check.self, Install.self,
            List.self, Status.self,
            LaunchCommand.self, Confirm.self, Fail.self, Rollback.self, Unblock.self, CollectGarbage.self, Serve.self,
            Login.self, Logout.self, Lock.self, Unlock.self, Host.self,
        ])
}

/// What this program is.
enum Product {
    static let version = "0.1.0"
    static let userAgent = "clientctl/\(version)"
}
