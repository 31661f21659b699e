import BundleTesting
import Glibc
import Testing

/// A temporary folder for the `openssl` command. It is removed at the end of the test.
final class Workbench {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    var path: String { folder.path }

    func write(_ bytes: [UInt8], to name: String) throws { try folder.write(bytes, to: name) }

    func read(_ name: String) throws -> [UInt8] { try contents(ofFile: folder.file(name)) }

    /// Runs `openssl` with arguments separated by spaces and returns its output. A failure of the command fails the test
    /// with its message.
    @discardableResult
    func openssl(_ words: String) throws -> String {
        let ending = try run(words)
        guard ending.status == 0 else {
            throw Failure(description: "openssl \(words) ended with \(ending.status ?? -1): \(ending.errors)")
        }
        return ending.text
    }

    /// Returns the exit status of `openssl` with arguments separated by spaces, or nil if a signal ended it.
    func exitStatus(ofOpenSSL words: String) throws -> Int32? { try run(words).status }

    private func run(_ words: String) throws -> Program.Ending {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        return try Program.run(
            ["openssl"] + words.split(separator: " ").map(String.init), environment: ["PATH": path], in: folder.path)
    }
}
