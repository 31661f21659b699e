/// A percentage of devices on the command line. Documents contain thousandths.
package struct RolloutPercentage: Sendable, Equatable, CustomStringConvertible {
    /// The thousandths, 0...1000.
    package let permille: Int

    package init(permille: Int) { self.permille = permille }

    /// Parses 0% to 100% with at most one decimal, such as 25% or 2.5%; returns nil for other text. The percent sign is
    /// required, because a bare number could be in thousandths.
    package init?(parsing text: String) {
        guard text.utf8.last == UInt8(ascii: "%") else { return nil }
        let parts = text.utf8.dropLast().split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count <= 2, let whole = Self.number(parts[0], digits: 1...3) else { return nil }
        var permille = whole * 10
        if parts.count == 2 {
            guard let tenths = Self.number(parts[1], digits: 1...1) else { return nil }
            permille += tenths
        }
        guard permille <= ChannelDocument.Release.allDevices else { return nil }
        self.permille = permille
    }

    private static func number(_ text: Substring.UTF8View, digits: ClosedRange<Int>) -> Int? {
        guard digits.contains(text.count), text.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return text.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }

    /// The percentage, such as `25%` or `2.5%`.
    package var description: String {
        permille % 10 == 0 ? "\(permille / 10)%" : "\(permille / 10).\(permille % 10)%"
    }
}
