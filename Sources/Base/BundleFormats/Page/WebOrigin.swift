import BundleValues

/// An origin that pages may use: the scheme, host and port of a source in a Content Security Policy.
package struct WebOrigin: Sendable, Hashable, CustomStringConvertible {
    /// The schemes that a release can declare.
    package enum Scheme: String, Sendable {
        case https, wss, http, ws

        var isEncrypted: Bool { self == .https || self == .wss }
        package var isWebSocket: Bool { self == .wss || self == .ws }
        fileprivate var port: Int { isEncrypted ? 443 : 80 }
    }

    package let scheme: Scheme
    /// A name or an IPv4 address in lower case.
    package let host: String
    /// Nil for the port of the scheme.
    package let port: Int?

    /// Parses an origin. Only hosts of the device's own network may lack encryption.
    package init(parsing text: some StringProtocol) throws(OriginRefusal) {
        let parts = try OriginParts(text)
        if text.contains("*") { throw .wildcard }
        (scheme, host) = (parts.scheme, parts.host)
        port = try parts.port.map(OriginParts.number).flatMap { [scheme] in $0 == scheme.port ? nil : $0 }
        if let refusal = OriginParts.refusal(ofHost: host) { throw refusal }
        if !isEncrypted, !Self.isNearby(host) { throw .unencrypted }
    }

    package var isEncrypted: Bool { scheme.isEncrypted }

    /// The origin, as a source of a policy.
    package var description: String { "\(scheme.rawValue)://\(host)" + (port.map { ":\($0)" } ?? "") }

    /// Whether `host` is this machine, or an address of a private network (RFC 1918) or of one link (RFC 3927).
    private static func isNearby(_ host: String) -> Bool {
        if ThisMachine.isNamed(by: host) { return true }
        guard let address = OriginParts.address(host) else { return false }
        return switch (address[0], address[1]) {
        case (10, _), (172, 16...31), (192, 168), (169, 254): true
        default: false
        }
    }
}

/// An upper bound for the origins of a release: an origin, or all hosts below a name, such as `https://*.example.com`.
package struct OriginPattern: Sendable, Equatable, CustomStringConvertible {
    private enum Port: Equatable { case any, number(Int) }

    private let scheme: WebOrigin.Scheme
    /// The host, or the name above the hosts.
    private let host: String
    private let coversHostsBelow: Bool
    private let port: Port
    package let description: String

    /// Parses a pattern. `*` may replace the first labels of a host, and the port.
    package init(parsing text: some StringProtocol) throws(OriginRefusal) {
        let parts = try OriginParts(text)
        scheme = parts.scheme
        coversHostsBelow = parts.host.hasPrefix("*.")
        host = coversHostsBelow ? String(parts.host.dropFirst(2)) : parts.host
        if host.contains("*") { throw .wildcard }
        if let refusal = OriginParts.refusal(ofHost: host) { throw refusal }
        if coversHostsBelow, OriginParts.address(host) != nil { throw .wildcard }
        port =
            switch parts.port {
            case nil: .number(scheme.port)
            case "*"?: .any
            case let text?: .number(try OriginParts.number(text))
            }
        description = text.lowercased()
    }

    /// Returns whether the pattern covers `origin`. A scheme covers only itself.
    package func covers(_ origin: WebOrigin) -> Bool {
        guard origin.scheme == scheme, port == .any || port == .number(origin.port ?? origin.scheme.port) else {
            return false
        }
        return coversHostsBelow ? origin.host.hasSuffix(".\(host)") : origin.host == host
    }
}

/// The reason why a text is not an origin that a release can declare.
package enum OriginRefusal: Error, Equatable, CaseIterable, CustomStringConvertible {
    case quotes, separator, noScheme, scheme, path, credentials, wildcard, host, address, port, unencrypted, webSocket

    /// A clause about the text.
    package var description: String {
        switch self {
        case .quotes: "is a keyword of a policy or has quotation marks"
        case .separator: "has a comma or a semicolon, but spaces separate origins"
        case .noScheme: "has no scheme"
        case .scheme: "has another scheme than https and wss"
        case .path: "has a path"
        case .credentials: "has a user name"
        case .wildcard: "has a wildcard"
        case .host: "has no valid host name (one with other letters is written with xn--)"
        case .address: "has an address that is not four decimal numbers"
        case .port: "has no valid port"
        case .unencrypted: "is not encrypted, and its host is neither this machine nor a private address"
        case .webSocket: "is for WebSockets, which load no resources"
        }
    }
}

/// The parts of the text of an origin or a pattern.
private struct OriginParts {
    let scheme: WebOrigin.Scheme
    let host: String
    let port: String?

    init(_ text: some StringProtocol) throws(OriginRefusal) {
        // Lower case of another character may be ASCII.
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { throw .host }
        if text.contains(where: { "'\"`".contains($0) }) { throw .quotes }
        if text.contains(where: { ",;".contains($0) }) { throw .separator }
        guard let mark = text.firstRange(of: "://") else { throw .noScheme }
        guard let scheme = WebOrigin.Scheme(rawValue: text[..<mark.lowerBound].lowercased()) else { throw .scheme }
        self.scheme = scheme
        let rest = text[mark.upperBound...].lowercased()
        if rest.contains(where: { "/?#\\".contains($0) }) { throw .path }
        if rest.contains("@") { throw .credentials }
        // A policy cannot name an address of IPv6.
        if rest.hasPrefix("[") { throw .address }
        let words = rest.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        host = words.first.map(String.init) ?? ""
        port = words.count > 1 ? String(words[1]) : nil
    }

    static func number(_ port: String) throws(OriginRefusal) -> Int {
        guard port.utf8.allSatisfy(\.isASCIIDigit), !port.hasPrefix("0"), let number = Int(port), number <= 65535 else {
            throw .port
        }
        return number
    }

    static func refusal(ofHost host: String) -> OriginRefusal? {
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        guard host.utf8.count <= 253, labels.allSatisfy(isLabel), let last = labels.last else { return .host }
        // Browsers read such a host as an address, also if it is octal, hexadecimal or shortened.
        let isNumber = last.utf8.allSatisfy(\.isASCIIDigit) || last.hasPrefix("0x")
        return isNumber && address(host) == nil ? .address : nil
    }

    private static func isLabel(_ label: Substring) -> Bool {
        (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
            && label.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") }
    }

    /// Returns the four numbers of an address; nil for a name.
    static func address(_ host: String) -> [UInt8]? {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        let numbers = parts.compactMap { part in
            part.utf8.allSatisfy(\.isASCIIDigit) && (part == "0" || !part.hasPrefix("0")) ? UInt8(part) : nil
        }
        return parts.count == 4 && numbers.count == 4 ? numbers : nil
    }
}
