import Glibc
import Testing

/// A temporary folder in which the `openssl` command runs; removed with everything in it when the test ends.
final class Workbench {
    let path: String

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    init() throws {
        let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(parent)/bundle-signing-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(description: "mkdtemp failed: errno \(errno)") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit {
        if let folder = opendir(path) {
            while let entry = readdir(folder) {
                let name = withUnsafeBytes(of: &entry.pointee.d_name) {
                    String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
                }
                unlink("\(path)/\(name)")
            }
            closedir(folder)
        }
        rmdir(path)
    }

    func write(_ bytes: [UInt8], to name: String) throws {
        guard let file = fopen("\(path)/\(name)", "w") else { throw Failure(description: "cannot write \(name)") }
        let written = fwrite(bytes, 1, bytes.count, file)
        guard fclose(file) == 0, written == bytes.count else { throw Failure(description: "cannot write \(name)") }
    }

    func read(_ name: String) throws -> [UInt8] {
        guard let file = fopen("\(path)/\(name)", "r") else { throw Failure(description: "cannot read \(name)") }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        let count = fread(&bytes, 1, bytes.count, file)
        return Array(bytes.prefix(count))
    }

    /// Runs `openssl` with these words, split at spaces; a failure of the command fails the test with what it said.
    func openssl(_ words: String) throws {
        let status = try exitStatus(ofOpenSSL: words)
        guard status == 0 else {
            let said = String(decoding: try read("said"), as: UTF8.self)
            throw Failure(description: "openssl \(words) ended with \(status): \(said)")
        }
    }

    /// The exit status of `openssl` with these words, split at spaces.
    func exitStatus(ofOpenSSL words: String) throws -> Int32 {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, "\(path)/said", O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        var arguments = (["env", "-C", path, "openssl"] + words.split(separator: " ").map(String.init)).map {
            strdup($0)
        }
        defer { arguments.forEach { free($0) } }
        arguments.append(nil)
        var environment = [getenv("PATH").flatMap { strdup("PATH=\(String(cString: $0))") }, nil]
        defer { free(environment[0]) }
        var child: pid_t = 0
        let error = posix_spawnp(&child, "env", &actions, nil, &arguments, &environment)
        guard error == 0 else { throw Failure(description: "cannot start openssl: errno \(error)") }
        var status: Int32 = 0
        while waitpid(child, &status, 0) == -1 {
            guard errno == EINTR else { throw Failure(description: "waitpid failed: errno \(errno)") }
        }
        return status & 0x7f == 0 ? status >> 8 & 0xff : -1
    }
}
