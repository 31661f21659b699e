/// Where a server listens on 127.0.0.1.
package enum PortChoice: Sendable, Equatable {
    /// This port or none; 0 is any that is free.
    case fixed(Int)
    /// The port that belongs to an application, or the next free one of `range`.
    ///
    /// A browser keeps what an application stores by origin, which the port is a part of; so another port than the application's own
    /// is worth a warning.
    case derived(appId: String?)

    /// The ports that applications have.
    package static let range = 12000...12999

    /// The port of an application: `12000 + parseInt(appId, 36) % 1000`, computed as JavaScript does; 12000 where that is no number.
    package static func port(forAppId appId: String?) -> Int {
        let remainder = appId.flatMap(javaScriptInteger)?.truncatingRemainder(dividingBy: 1000) ?? 0
        return range.lowerBound + (remainder.isNaN ? 0 : Int(remainder))
    }

    /// The port that is wanted.
    package var wanted: Int {
        switch self {
        case .fixed(let port): port
        case .derived(let appId): Self.port(forAppId: appId)
        }
    }

    /// The ports to try, in this order.
    var candidates: [Int] {
        guard case .derived = self else { return [wanted] }
        return Array(wanted...Self.range.upperBound) + Array(Self.range.lowerBound..<wanted)
    }

    /// `parseInt(text, 36)` for text without a sign, rounded as JavaScript engines round it: groups of up to five digits, each
    /// exact, joined in double precision. Nil is NaN.
    private static func javaScriptInteger(_ text: String) -> Double? {
        let digits = text.utf8.prefix { digit($0) != nil }
        if digits.isEmpty { return nil }
        var rest = digits.drop { $0 == UInt8(ascii: "0") }
        var value = 0.0
        while !rest.isEmpty {
            var group = 0
            var scale = 1
            for byte in rest.prefix(5) {
                group = group * 36 + (digit(byte) ?? 0)
                scale *= 36
            }
            value = value * Double(scale) + Double(group)
            rest = rest.dropFirst(5)
        }
        return value
    }

    private static func digit(_ byte: UInt8) -> Int? {
        if HTTPBytes.isDigit(byte) { return Int(byte - UInt8(ascii: "0")) }
        return HTTPBytes.isLetter(byte) ? Int((byte | 0x20) - UInt8(ascii: "a")) + 10 : nil
    }
}
