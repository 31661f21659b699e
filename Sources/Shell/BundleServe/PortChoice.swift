/// The selection of a port on 127.0.0.1.
package enum PortChoice: Sendable, Equatable {
    /// This port only; 0 selects a free one.
    case fixed(Int)
    /// The port of an application, or the next free one of `range`.
    ///
    /// A browser stores data by origin, which includes the port. So a port other than the application's own deserves
    /// a warning.
    case derived(appId: String?)

    /// The range of application ports.
    package static let range = 12000...12999

    /// Returns the port of an application: `12000 + parseInt(appId, 36) % 1000`, computed as in JavaScript; 12000 for
    /// NaN.
    package static func port(forAppId appId: String?) -> Int {
        let remainder = appId.flatMap(javaScriptInteger)?.truncatingRemainder(dividingBy: 1000) ?? 0
        return range.lowerBound + (remainder.isNaN ? 0 : Int(remainder))
    }

    /// The preferred port.
    package var wanted: Int {
        switch self {
        case .fixed(let port): port
        case .derived(let appId): Self.port(forAppId: appId)
        }
    }

    /// The ports to try, in order.
    var candidates: [Int] {
        guard case .derived = self else { return [wanted] }
        return Array(wanted...Self.range.upperBound) + Array(Self.range.lowerBound..<wanted)
    }

    /// Returns `parseInt(text, 36)` for text without a sign, rounded as JavaScript engines do: groups of up to five
    /// digits, each exact, joined in double precision. Nil is NaN.
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
