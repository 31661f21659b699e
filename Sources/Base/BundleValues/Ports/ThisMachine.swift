/// The one rule of which hosts are this very machine, so that what is said to them crosses no network.
package enum ThisMachine {
    /// Whether `host` is an address of the loopback network, or the name that stands for one (RFC 6761); an IPv6 address may be in
    /// brackets. Every other spelling is somewhere else.
    package static func isNamed(by host: String) -> Bool {
        let host = host.utf8.map(\.asciiLowered)
        let names = ["localhost", "::1", "[::1]"]
        return names.contains { host.elementsEqual($0.utf8) } || isLoopback(host)
    }

    /// Four numbers in decimal, the first of them 127; a leading zero would make one octal to some readers.
    private static func isLoopback(_ address: [UInt8]) -> Bool {
        let parts = address.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0].elementsEqual("127".utf8)
            && parts.allSatisfy { part in
                part.allSatisfy(\.isASCIIDigit) && (part.count == 1 || part.first != UInt8(ascii: "0"))
                    && UInt8(String(decoding: part, as: UTF8.self)) != nil
            }
    }
}

extension FetchURL.Origin {
    /// Whether it is this very machine.
    public var isThisMachine: Bool { ThisMachine.isNamed(by: host) }
}
