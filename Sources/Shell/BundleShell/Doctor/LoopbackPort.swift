import BundleDisk
package import CLibrary

/// Examines the ports of 127.0.0.1 without listening on them.
package enum LoopbackPort {
    /// Returns the reason why no program can listen on `port`; nil if it is free.
    static func refusal(_ port: Int) -> DiskError? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return DiskError("open", at: "a socket", code: errno) }
        defer { close(descriptor) }
        // As in `serve`: recently closed connections do not block a port.
        var isOn: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(clamping: port)).bigEndian
        address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        return result == 0 ? nil : DiskError("bind", at: "port \(port)", code: errno)
    }

    /// A process that listens on a port.
    struct Owner: Sendable {
        let process: pid_t
        /// The command name, at most 15 characters (proc_pid_comm(5)).
        let name: String
        /// The store that it shows; nil if it is not a `serve`.
        let store: String?
    }

    /// Returns the process that listens on `port`; nil if there is none, or if this thread may not read its open files, as with
    /// Landlock.
    static func owner(of port: Int) -> Owner? {
        let sockets = Set(["tcp", "tcp6"].flatMap { listening(on: port, in: text("/proc/net/\($0)")) })
        if sockets.isEmpty { return nil }
        for process in names("/proc").compactMap({ pid_t($0) }) {
            let files = names("/proc/\(process)/fd").compactMap { target("/proc/\(process)/fd/\($0)") }
            guard files.contains(where: sockets.contains) else { continue }
            let name = text("/proc/\(process)/comm").split(separator: "\n").first ?? "a program"
            let store = files.first { $0.hasSuffix("/serving") }?.dropLast("/serving".count)
            return Owner(process: process, name: String(name), store: store.map(String.init))
        }
        return nil
    }

    /// Returns the sockets that listen on `port`, as links in `/proc` name them, from a table in the format of proc_net_tcp(5).
    static func listening(on port: Int, in table: String) -> [String] {
        table.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            guard words.count > 9, words[3] == "0A", let local = words[1].split(separator: ":").last,
                Int(local, radix: 16) == port
            else { return nil }
            return "socket:[\(words[9])]"
        }
    }

    /// Returns the users whose programs accept connections to `port` of 127.0.0.1; nil if the system does not list its sockets.
    package static func users(of port: Int) -> Set<uid_t>? {
        let tables = ["tcp", "tcp6"].map { text("/proc/net/\($0)") }
        return tables[0].isEmpty ? nil : Set(tables.flatMap { users(of: port, in: $0) })
    }

    /// Returns the users whose programs accept connections to `port` of 127.0.0.1, from a table in the format of proc_net_tcp(5).
    static func users(of port: Int, in table: String) -> [uid_t] {
        table.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            guard words.count > 9, words[3] == "0A" else { return nil }
            let local = words[1].split(separator: ":")
            guard local.count == 2, Int(local[1], radix: 16) == port, reachesLoopback(local[0]) else { return nil }
            return uid_t(words[7])
        }
    }

    /// Returns whether a program of this process's user has connected from the port `client` of 127.0.0.1 to `port`. A connection that the
    /// system does not list counts as one.
    package static func isOwn(_ client: Int, to port: Int) -> Bool {
        ["tcp", "tcp6"].flatMap { users(from: client, to: port, in: text("/proc/net/\($0)")) }
            .allSatisfy { $0 == geteuid() }
    }

    /// Returns the users of connections from the port `client` to `port`, from a table in the format of proc_net_tcp(5).
    static func users(from client: Int, to port: Int, in table: String) -> [uid_t] {
        // Each request of a browser reads this table, which has a line for every connection of the system.
        let ends = [client, port].map { ":" + format($0, digits: 4) }
        return table.utf8.split(separator: UInt8(ascii: "\n")).compactMap { line in
            let words = line.split(separator: UInt8(ascii: " "), maxSplits: 9)
            guard words.count > 9, words[1].suffix(5).elementsEqual(ends[0].utf8),
                words[2].suffix(5).elementsEqual(ends[1].utf8)
            else { return nil }
            return uid_t(Substring(words[7]))
        }
    }

    /// Returns whether a socket that is bound to `address`, in the hexadecimal words of proc_net_tcp(5), accepts connections to 127.0.0.1.
    private static func reachesLoopback(_ address: Substring) -> Bool {
        let loopback = format(in_addr_t(INADDR_LOOPBACK).bigEndian, digits: 8)
        let mapped = String(repeating: "0", count: 16) + format(UInt32(0xFFFF).bigEndian, digits: 8) + loopback
        return address.allSatisfy { $0 == "0" } || address == loopback || address == mapped
    }

    private static func format(_ number: some BinaryInteger, digits: Int) -> String {
        let text = String(number, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(0, digits - text.count)) + text
    }

    /// Returns the text of a file in `/proc`, whole: connections of other users must not hide a line at its end.
    static func text(_ path: String) -> String {
        var bytes: [UInt8] = []
        _ = try? File.open(reading: path).forEachBlock { bytes += $0 }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func names(_ folder: String) -> [String] { (try? Directory.open(folder).list()) ?? [] }

    private static func target(_ path: String) -> String? {
        var bytes = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }
}
