/// An open-addressing table from 64-bit hashes to 32-bit tags, which a dictionary would need twice the memory for: a client may
/// have a hundred thousand names, and a device little room.
struct NameTable {
    private var hashes: [UInt64]
    private var tags: [UInt32]
    private var count = 0

    /// Has room for `expected` names.
    init(expected: Int) {
        var size = 1024
        while Self.isFull(expected, of: size) { size *= 2 }
        hashes = [UInt64](repeating: 0, count: size)
        tags = [UInt32](repeating: 0, count: size)
    }

    /// Linear probing stays short enough up to nine tenths.
    private static func isFull(_ count: Int, of size: Int) -> Bool { count >= size / 10 * 9 }

    /// Keeps `tag` under `hash`; returns the tag that was there before.
    mutating func update(_ hash: UInt64, to tag: UInt32) -> UInt32? {
        if Self.isFull(count, of: hashes.count) { grow() }
        // 0 marks a free slot.
        let hash = hash == 0 ? 1 : hash
        let index = place(of: hash)
        defer {
            hashes[index] = hash
            tags[index] = tag
        }
        if hashes[index] == hash { return tags[index] }
        count += 1
        return nil
    }

    /// The slot of `hash`, or the free one where it belongs.
    private func place(of hash: UInt64) -> Int {
        let mask = hashes.count - 1
        var index = Int(truncatingIfNeeded: hash &* 0x9E37_79B9_7F4A_7C15 >> 24) & mask
        while hashes[index] != 0, hashes[index] != hash { index = (index + 1) & mask }
        return index
    }

    private mutating func grow() {
        let old = (hashes, tags)
        hashes = [UInt64](repeating: 0, count: old.0.count * 2)
        tags = [UInt32](repeating: 0, count: old.0.count * 2)
        for (hash, tag) in zip(old.0, old.1) where hash != 0 {
            let index = place(of: hash)
            hashes[index] = hash
            tags[index] = tag
        }
    }
}
