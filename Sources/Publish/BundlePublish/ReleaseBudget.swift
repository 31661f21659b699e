import BundleFormats
import BundleValues

/// The maximum size of a release, and of its growth over the release before it.
package struct ReleaseBudget: Sendable, Equatable {
    package enum Growth: Sendable, Equatable {
        case bytes(Int)
        /// Thousandths of the size of the release before.
        case permille(Int)
    }

    /// The maximum size of all files in bytes; nil for no limit.
    package let bytes: Int?
    /// The maximum growth; nil for no limit.
    package let growth: Growth?

    package init(bytes: Int? = nil, growth: Growth? = nil) {
        self.bytes = bytes
        self.growth = growth
    }

    /// Parses a size, a growth after a plus sign, or both with a comma between them, such as `20MB,+10%`. Returns nil
    /// for any other text.
    package init?(parsing text: String) {
        var (bytes, growth): (Int?, Growth?) = (nil, nil)
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            if !part.hasPrefix("+") {
                guard bytes == nil, let size = try? ByteCount(parsing: part) else { return nil }
                bytes = size.bytes
            } else if growth != nil {
                return nil
            } else if let percentage = RolloutPercentage(parsing: String(part.dropFirst())) {
                growth = .permille(percentage.permille)
            } else if let size = try? ByteCount(parsing: part.dropFirst()) {
                growth = .bytes(size.bytes)
            } else {
                return nil
            }
        }
        self.init(bytes: bytes, growth: growth)
    }

    /// Returns by how many bytes a release of `size` bytes exceeds its budget and which part; nil if it does not.
    /// `previous` is the size of the release before; nil if there is none.
    func excess(of size: Int, over previous: Int?) -> Excess? {
        if let bytes, size > bytes { return .size(by: size - bytes) }
        guard let growth, let previous else { return nil }
        let allowed =
            switch growth {
            case .bytes(let bytes): bytes
            case .permille(let permille): Int((Double(previous) * Double(permille) / 1000).rounded(.down))
            }
        return size - previous > allowed ? .growth(by: size - previous, allowed: allowed) : nil
    }

    enum Excess: Equatable {
        case size(by: Int)
        case growth(by: Int, allowed: Int)
    }
}
