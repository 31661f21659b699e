/// Decides whether a host is this machine, so that traffic to it does not cross a network.
package enum ThisMachine {
    /// Whether `host` is `localhost` (RFC 6761) or an address of the loopback network. An IPv6 address may be in
    /// brackets. Other spellings, such as octal numbers, are not recognized.
    package static func isNamed(by host: String) -> Bool {
        let host = host.utf8.map(\.asciiLowered)
        let names = ["localhost", "::1", "[::1]"]
        return names.contains { host.elementsEqual($0.utf8) } || isLoopback(host)
    }

    /// Requires four decimal numbers. Some parsers read a number with a leading zero as octal.
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
    /// Whether the host is this machine.
    public var isThisMachine: Bool { ThisMachine.isNamed(by: host) }
}
