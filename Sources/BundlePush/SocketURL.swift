/// Where a WebSocket can be opened: `ws` or `wss`, strictly read.
public struct SocketURL: Sendable, Hashable, CustomStringConvertible {
    /// Whether it is `wss`: inside TLS.
    public let isSecure: Bool
    /// The host in lower case: a name, an IPv4 address, or an IPv6 address without its brackets.
    public let host: String
    /// The port, with the scheme's own filled in.
    public let port: Int
    /// Path and query, as they go onto the wire.
    public let target: String

    /// Longer ones are refused.
    public static let maximumBytes = 2048

    /// Reads `ws://host[:port][/path][?query]`, or `wss`; http and https are read as these, since sockets start out so.
    ///
    /// Refused are user names, fragments, and bytes that no URL has.
    public init(parsing text: String) throws(TransportError) {
        let utf8 = Array(text.utf8.prefix(Self.maximumBytes + 1))
        func refusal(_ reason: String) -> TransportError {
            .unsupportedURL(
                String(decoding: utf8.prefix(200).filter { (0x20...0x7E).contains($0) }, as: UTF8.self), reason: reason)
        }
        if utf8.count > Self.maximumBytes { throw refusal("it has more than \(Self.maximumBytes) bytes") }
        if let bad = utf8.first(where: { !(0x21...0x7E).contains($0) || "\"<>\\^`{|}".utf8.contains($0) }) {
            throw refusal("byte \(bad) stands in no URL; write it percent-encoded")
        }
        if utf8.contains(UInt8(ascii: "#")) { throw refusal("a socket has no fragment; leave out what begins with #") }
        guard let (isSecure, rest) = Self.scheme(utf8) else { throw refusal("write ws://… or wss://…") }
        let authority = rest.prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        if authority.contains(UInt8(ascii: "@")) { throw refusal("user names and passwords do not belong into URLs") }
        guard let (host, portText) = Self.split(authority), Self.isHost(host) else {
            throw refusal("its host is neither a name nor an address")
        }
        let ownPort = isSecure ? 443 : 80
        var port = ownPort
        if let portText, !portText.isEmpty {
            guard portText.count <= 5, portText.allSatisfy({ (0x30...0x39).contains($0) }),
                let number = Int(String(decoding: portText, as: UTF8.self)), (1...65535).contains(number)
            else { throw refusal("its port is none from 1 to 65535") }
            port = number
        }
        self.isSecure = isSecure
        self.host = String(decoding: host, as: UTF8.self).lowercased()
        self.port = port
        let target = String(decoding: rest.dropFirst(authority.count), as: UTF8.self)
        self.target = target.hasPrefix("/") ? target : "/" + target
    }

    /// The host as it stands in a URL, with the port where it is not the scheme's own.
    public var authority: String {
        let name = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }

    /// The whole URL.
    public var description: String { "\(isSecure ? "wss" : "ws")://\(authority)\(target)" }

    private static func scheme(_ text: [UInt8]) -> (isSecure: Bool, rest: ArraySlice<UInt8>)? {
        for (scheme, isSecure) in [("ws://", false), ("wss://", true), ("http://", false), ("https://", true)] {
            let start = text.prefix(scheme.utf8.count)
            if start.elementsEqual(scheme.utf8, by: { $0 | ($0 & 0x40) >> 1 == $1 }) {
                return (isSecure, text.dropFirst(start.count))
            }
        }
        return nil
    }

    /// Host and port; the brackets of an IPv6 address are taken off.
    private static func split(_ authority: ArraySlice<UInt8>) -> (host: ArraySlice<UInt8>, port: ArraySlice<UInt8>?)? {
        let colon = UInt8(ascii: ":")
        if authority.first == UInt8(ascii: "[") {
            guard let end = authority.firstIndex(of: UInt8(ascii: "]")) else { return nil }
            let host = authority[authority.startIndex + 1..<end]
            let rest = authority[(end + 1)...]
            guard host.contains(colon), host.allSatisfy({ isHex($0) || $0 == colon || $0 == UInt8(ascii: ".") }) else {
                return nil
            }
            if rest.isEmpty { return (host, nil) }
            return rest.first == colon ? (host, rest.dropFirst()) : nil
        }
        guard let end = authority.firstIndex(of: colon) else { return (authority, nil) }
        return (authority[..<end], authority[(end + 1)...])
    }

    private static func isHost(_ host: ArraySlice<UInt8>) -> Bool {
        (1...253).contains(host.count)
            && host.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                default: "-._:".utf8.contains(byte)
                }
            }
    }

    private static func isHex(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x46, 0x61...0x66: true
        default: false
        }
    }
}
