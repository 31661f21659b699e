import Glibc

/// The programs that tests run as users would.
package enum Built {
    /// Where programs are built: the folder of the test program.
    private static let folder: String = {
        var bytes = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &bytes, bytes.count)
        let program = String(decoding: bytes.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return program.split(separator: "/").dropLast().reduce("") { "\($0)/\($1)" }
    }()

    /// The program that `SWAP_CLIENTS_CLIENTCTL` names, such as the binary for devices; by default the debug build.
    package static let clientctl = {
        let named = getenv("SWAP_CLIENTS_CLIENTCTL").map { String(cString: $0) } ?? ""
        return named.isEmpty ? "\(folder)/clientctl" : named
    }()

    /// An example of a shell.
    package static let tinyShell = "\(folder)/TinyShell"

    /// A Meteor server to test against.
    package static let mockMeteor = "\(folder)/MockMeteor"
}
