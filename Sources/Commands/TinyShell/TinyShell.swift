import ClientBundles
import ClientServer
import Dispatch
import Glibc
import Synchronization

/// A minimal shell. A terminal replaces the web view, and the user types what a page would call.
///
///     swift run TinyShell store 1.0.0 seed https://updates.example.com/manifest.json release.pub.pem
@main
struct TinyShell {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard (6...7).contains(arguments.count) else {
            print("usage: TinyShell STORE SHELL-VERSION SEED MANIFEST-URL TRUST [HOST-URL]")
            exit(64)
        }
        let configuration = ShellConfiguration(
            store: arguments[1], shellVersion: try SemanticVersion(parsing: arguments[2]), seed: arguments[3])
        var device = DeviceContainer(
            configuration, userAgent: "TinyShell/1.0", environment: Environment(log: { print("shell: \($0)") }))
        device.feed = DeviceContainer.Feed(.manifest(try FetchURL(parsing: arguments[4])), trust: arguments[5])
        device.push = arguments.count == 7 ? arguments[6] : nil
        let view = TerminalView()
        let shell = try device.shell(bridge: view)
        let listening = try device.listening()

        try await shell.start()
        await withTaskGroup { group in
            group.addTask { await shell.run() }
            group.addTask { await listening.run(shell) }
            group.addTask { for await event in shell.events { print("event: \(event)") } }
            await view.follow(shell)
            group.cancelAll()
        }
    }
}

/// A terminal instead of a web view.
final class TerminalView: ShellBridge {
    private let client = Mutex<ReadyClient?>(nil)

    func show(_ client: ReadyClient) { self.client.withLock { $0 = client } }

    func reload() { print("(the page reloads: type `load`)") }

    /// Runs the typed commands until the input ends.
    func follow(_ shell: ClientShell) async {
        var token: LaunchToken?
        print("commands: load, ok (the start is complete), check, reload, back, status, quit")
        while let line = await nextLine(), line != "quit" {
            do {
                try await perform(line, shell, &token)
            } catch {
                let failure = UpdateFailure(error)
                print("error \(failure.code): \(failure.message)")
            }
        }
    }

    /// Reads a line without blocking a thread of the shell.
    private func nextLine() async -> String? {
        await withCheckedContinuation { line in DispatchQueue.global().async { line.resume(returning: readLine()) } }
    }

    private func perform(_ command: String, _ shell: ClientShell, _ token: inout LaunchToken?) async throws {
        switch command {
        case "load":
            // A real web view calls this before it shows the page.
            token = try await shell.pageWillLoad().token
            if let client = client.withLock({ $0 }) { print("showing \(client.name) from \(client.root.path)") }
        case "ok": if let token { try await shell.startupDidComplete(token) }
        case "check": try await shell.checkForUpdates()
        case "reload": try await shell.reload()
        case "back": print("next: \(try await shell.rollBack())")
        case "status":
            for client in try await shell.deviceStatus().installed { print("\(client.name): \(client.state)") }
        default: print("unknown command: \(command)")
        }
    }
}
