import Glibc

/// The programs under test.
package enum Built {
    /// The folder of the test program, which contains the other programs.
    private static let folder: String = {
        var bytes = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &bytes, bytes.count)
        let program = String(decoding: bytes.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return program.split(separator: "/").dropLast().reduce("") { "\($0)/\($1)" }
    }()

    /// The program in `SWAP_CLIENTS_CLIENTCTL`, such as a release binary; by default the debug build.
    package static let clientctl = {
        let named = getenv("SWAP_CLIENTS_CLIENTCTL").map { String(cString: $0) } ?? ""
        return named.isEmpty ? "\(folder)/clientctl" : named
    }()

    package static let tinyShell = "\(folder)/TinyShell"

    package static let mockMeteor = "\(folder)/MockMeteor"
}
