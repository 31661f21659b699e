import BundleCore
import BundleValues
import BundleThreads
import ClientShell
import Glibc
import Synchronization

/// The smallest shell there can be: its web view is a terminal, which shows the title of the page, and you are the page.
///
///     swift run TinyShell store 1.0.0 seed https://updates.example.com/manifest.json release.pub.pem
@main
struct TinyShell {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 6 else {
            print("usage: TinyShell STORE SHELL-VERSION SEED MANIFEST-URL TRUST")
            exit(64)
        }
        let device = Launcher.Device(
            store: arguments[1], shell: try SemanticVersion(parsing: arguments[2]), seed: arguments[3], verifies: false)
        var container = DeviceContainer(ShellConfiguration(device: device)) { print("shell: \($0)") }
        container.feed = DeviceContainer.Feed(
            .manifest(try FetchURL(parsing: arguments[4])), trust: arguments[5], appId: nil,
            fetcher: try DeviceContainer.fetcher(userAgent: "TinyShell"))
        let view = TerminalView()
        let shell = try container.shell(bridge: view)

        try await shell.start()
        await withTaskGroup { group in
            group.addTask { await shell.run() }
            group.addTask { for await event in shell.events { print("event: \(event)") } }
            group.addTask { await view.show(shell) }
            await group.next()
            group.cancelAll()
        }
    }
}

/// A web view that is a terminal.
final class TerminalView: ShellBridge {
    private let client = Mutex<ReadyClient?>(nil)

    func setServerBasePath(_ client: ReadyClient) { self.client.withLock { $0 = client } }

    func reload() { print("(the page loads again: type `load`)") }

    /// Does what is typed, until the input ends.
    func show(_ shell: ClientShell) async {
        var token: LaunchToken?
        print("commands: load, ok (the start is complete), check, reload, version, quit")
        while let line = try? await onThread({ readLine() }), line != "quit" {
            do {
                try await perform(line, shell, &token)
            } catch {
                print("refused: \(UpdateFailure(error).message)")
            }
        }
    }

    private func perform(_ command: String, _ shell: ClientShell, _ token: inout LaunchToken?) async throws {
        switch command {
        case "load":
            // A real web view calls this before it shows the first byte of the page.
            token = try await shell.pageWillLoad().token
            if let client = client.withLock({ $0 }) { print("showing \(client.name) from \(client.root.path)") }
        case "ok": if let token { try await shell.startupDidComplete(token) }
        case "check": try await shell.checkForUpdates()
        case "reload": try await shell.reload()
        case "version": print(await shell.currentVersion?.description ?? "nothing is shown yet")
        default: print("what?")
        }
    }
}
