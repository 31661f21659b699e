import BundleDisk
import BundleValues
import Synchronization

/// Reads files and pipes with bearer tokens or header fields.
enum TokenFile {
    /// The tokens of pipes. A pipe can be read only once, but several callers need the tokens.
    private static let piped = Mutex<[String: [UInt8]]>([:])

    /// Returns the bytes at `path`. Calls `inspect` with a file, but not with a pipe, before it is read.
    static func contents(of path: String, _ inspect: (File) throws -> Void = { _ in }) throws -> [UInt8] {
        if let known = piped.withLock({ $0[path] }) { return known }
        var cameByPipe = false
        let content = try File.contents(ofArgument: path, maximumBytes: 64 * 1024) { file, isPipe in
            cameByPipe = isPipe
            if !isPipe { try inspect(file) }
        }
        let bytes = try EditedText.bytes(of: content, in: path)
        if cameByPipe { piped.withLock { $0[path] = bytes } }
        return bytes
    }
}
