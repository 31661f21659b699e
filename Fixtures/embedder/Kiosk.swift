import ClientBundles
import ClientServer
import Dispatch
import Glibc

/// A program of another package that serves the client of a device to a browser: `Scripts/checks/library` requests its page.
@main
struct Kiosk {
    static func main() async throws {
        guard CommandLine.arguments.count == 3 else {
            print("usage: Kiosk STORE SEED")
            return
        }
        let configuration = ShellConfiguration(
            store: CommandLine.arguments[1], shellVersion: try SemanticVersion(parsing: "1.0.0"),
            seed: CommandLine.arguments[2])
        let server = try await ShellServer.start(
            DeviceContainer(configuration, userAgent: "Kiosk/1.0"), ShellServer.Options(port: 0))
        print(server.url)
        // Output to a file or a pipe is buffered.
        fflush(nil)
        await withTaskGroup { group in
            group.addTask { await server.run() }
            group.addTask { for await event in server.events { print("event: \(event)") } }
            // The check ends the program with its input. Reading blocks, so it has a thread of its own.
            await withCheckedContinuation { ended in
                DispatchQueue.global().async {
                    while readLine() != nil {}
                    ended.resume()
                }
            }
            group.cancelAll()
        }
        await server.stop()
    }
}
