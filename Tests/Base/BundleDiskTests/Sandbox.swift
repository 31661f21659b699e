import BundleDisk
import BundleTesting
import Glibc
import Testing

/// A working folder beside a folder that no operation may reach.
final class Sandbox {
    let inside: Directory
    let outside: Directory
    private let temporary: TemporaryDirectory

    init() throws {
        temporary = try TemporaryDirectory.ofTests()
        inside = try temporary.directory.directory(creating: "inside")
        outside = try temporary.directory.directory(creating: "outside")
        try outside.write("secret", "theirs")
    }

    /// Requires that the outer folder has its original content.
    func requireOutsideUntouched(_ location: SourceLocation = #_sourceLocation) throws {
        #expect(try outside.list() == ["secret"], sourceLocation: location)
        #expect(try outside.text("secret") == "theirs", sourceLocation: location)
        #expect(try Set(temporary.directory.list()) == ["inside", "outside"], sourceLocation: location)
    }
}

extension Directory {
    func write(_ name: String, _ text: String) throws {
        try Array(text.utf8).withUnsafeBytes { try createFile(name, with: $0) }
    }

    func text(_ name: String) throws -> String? {
        try contents(name, maximumBytes: 1 << 20).map { String(decoding: $0, as: UTF8.self) }
    }

    func symbolicLink(_ name: String, to target: String) throws {
        try #require(symlink(target, "\(path)/\(name)") == 0)
    }
}

/// Returns the error number that `body` throws, or nil if it does not throw.
func code(_ body: () throws -> Void) -> Int32? {
    do {
        try body()
        return nil
    } catch {
        return (error as? DiskError)?.code ?? -1
    }
}
