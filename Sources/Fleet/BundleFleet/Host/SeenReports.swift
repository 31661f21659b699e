import BundleValues

/// The IDs of counted reports of phones, in a fixed half megabyte: two Bloom filters, of which the older one is emptied when the newer
/// one is half full, after about 360,000 reports.
///
/// A phone sends a report again with each start, so the exact list of a device's message would soon forget it. Up to 6 % of the new
/// reports are taken for known ones; none counts twice while it is remembered.
struct SeenReports: Sendable {
    /// 256 KiB each.
    private static let words = 1 << 15
    private static let bits = UInt64(words * 64)
    private static let magic = Array("seen-v1\n".utf8)
    /// The size of `bytes`.
    static let byteCount = magic.count + 2 * 8 * words

    private var newer: [UInt64] = []
    private var older: [UInt64] = []
    private var used = 0
    /// Whether the file has all IDs.
    var isStored = true

    init() {}

    /// Returns the four bits of an ID of 32 hexadecimal digits, which is a digest.
    private static func places(of id: String) -> [UInt64] {
        var words: [UInt64] = [0, 0, 0, 0]
        for (index, digit) in id.utf8.enumerated() where index < 32 {
            words[index / 8] = words[index / 8] << 4 | UInt64(digit.hexValue ?? 0)
        }
        return words.map { $0 % bits }
    }

    private static func has(_ places: [UInt64], in filter: [UInt64]) -> Bool {
        !filter.isEmpty && places.allSatisfy { filter[Int($0 / 64)] & 1 << ($0 % 64) != 0 }
    }

    func contains(_ id: String) -> Bool {
        let places = Self.places(of: id)
        return Self.has(places, in: newer) || Self.has(places, in: older)
    }

    mutating func insert(_ id: String) {
        if newer.isEmpty {
            newer = Array(repeating: 0, count: Self.words)
            older = newer
        }
        for place in Self.places(of: id) {
            let mask: UInt64 = 1 << (place % 64)
            if newer[Int(place / 64)] & mask == 0 { used += 1 }
            newer[Int(place / 64)] |= mask
        }
        isStored = false
        guard used * 2 > Self.words * 64 else { return }
        swap(&newer, &older)
        for index in newer.indices { newer[index] = 0 }
        used = 0
    }

    // MARK: The file

    /// Returns nil for bytes of another form: the counts remain valid without them.
    init?(_ bytes: [UInt8]) {
        guard bytes.count == Self.byteCount, bytes.starts(with: Self.magic) else { return nil }
        var words: [UInt64] = []
        words.reserveCapacity(2 * Self.words)
        for start in stride(from: Self.magic.count, to: bytes.count, by: 8) {
            words.append(bytes[start..<start + 8].reversed().reduce(0) { $0 << 8 | UInt64($1) })
        }
        (newer, older) = (Array(words[..<Self.words]), Array(words[Self.words...]))
        used = newer.reduce(0) { $0 + $1.nonzeroBitCount }
    }

    var bytes: [UInt8] {
        var bytes = Self.magic
        bytes.reserveCapacity(Self.byteCount)
        for word in newer + older {
            for shift in stride(from: UInt64(0), to: 64, by: 8) {
                bytes.append(UInt8(truncatingIfNeeded: word >> shift))
            }
        }
        return bytes
    }
}
