import BundleCore
import BundleValues
import ClientShell

/// The command of `--health-command`, which checks the device after the page of a client on trial has confirmed its start.
struct HealthCommand: Sendable {
    private static let limit = Duration.seconds(30)
    private static let longestOutput = 64 << 10

    let command: [String]

    func check(of client: ReadyClient) -> @Sendable () async -> HealthResult {
        let version = client.name.shortDescription
        return { await run(for: version) }
    }

    private func run(for version: String) async -> HealthResult {
        do {
            let (ending, output) = try await onThread { [command] in
                try StartedProgram.run(
                    command, adding: ["CLIENTCTL_VERSION": version], for: Self.limit,
                    longestOutput: Self.longestOutput)
            }
            if ending == .exited(0) { return .passed }
            let line = output.split(separator: UInt8(ascii: "\n")).last.map { String(decoding: $0, as: UTF8.self) }
            return .failed("the health command \(ending)" + (line.map { ": \($0)" } ?? ""))
        } catch {
            return .failed("the health command failed: \(UpdateFailure(error).message)")
        }
    }
}
