import BundleValues

/// Which old file a new one is most like: what its delta is made against.
///
/// The old file at its path; else, of those in its folder, the one that has most of its bytes, unless the one with its name but
/// for a hash has about as many. Bundlers rename and renumber, and the twin of a file in another folder is built for other
/// browsers. Pure: the same trees have the same partners.
struct PartnerRule {
    private struct Sample {
        let token: UInt64
        let number: Int
    }

    /// The old files of one folder, whatever hashes the folder's own name has.
    private struct Folder {
        var numbers: [Int] = []
        var byName: [[UInt8]: [Int]] = [:]
        var samples: [Sample] = []
    }

    /// Tokens that more old files have than this tell nothing: every chunk begins alike.
    private static let commonest = 32

    private let old: [BundlePath]
    private var folders: [[UInt8]: Folder] = [:]

    /// For the files of an old tree.
    init(_ old: [BundlePath]) {
        self.old = old
        for (number, path) in old.enumerated() {
            let (folder, name) = Self.key(of: path)
            folders[folder, default: Folder()].numbers.append(number)
            folders[folder, default: Folder()].byName[name, default: []].append(number)
        }
    }

    /// The old files that `path`, which no old file has, may be like.
    func candidates(for path: BundlePath) -> [Int] { folders[Self.key(of: path).folder]?.numbers ?? [] }

    /// Says what old files hold; those of a folder at once, before its first partner is asked for.
    mutating func know(_ sketches: [(number: Int, sketch: ContentSketch)], besides path: BundlePath) {
        let samples = sketches.flatMap { entry in
            entry.sketch.tokens.map { Sample(token: $0, number: entry.number) }
        }
        folders[Self.key(of: path).folder]?.samples = samples.sorted {
            ($0.token, $0.number) < ($1.token, $1.number)
        }
    }

    /// Whether `know` was called for the folder of `path`.
    func knows(besides path: BundlePath) -> Bool { folders[Self.key(of: path).folder]?.samples.isEmpty == false }

    /// The partner of a file with `sketch` at `path`, which no old file has; nil where none is like it.
    func partner(of path: BundlePath, _ sketch: ContentSketch) -> Int? {
        let (folderName, name) = Self.key(of: path)
        guard let folder = folders[folderName] else { return nil }
        let shared = Self.overlaps(of: sketch, in: folder.samples)
        let byContent = shared.max { ($0.value, -$0.key) < ($1.value, -$1.key) }
        let named = folder.byName[name]?.max { (shared[$0] ?? 0, -$0) < (shared[$1] ?? 0, -$1) }
        let least = max(2, sketch.tokens.count / 20)
        guard let byContent, byContent.value >= least else { return named }
        guard let named else { return byContent.key }
        return byContent.value > 2 * (shared[named] ?? 0) + 8 ? byContent.key : named
    }

    private static func overlaps(of sketch: ContentSketch, in samples: [Sample]) -> [Int: Int] {
        var counts: [Int: Int] = [:]
        for token in sketch.tokens {
            var (low, high) = (0, samples.count)
            while low < high {
                let middle = (low + high) / 2
                if samples[middle].token < token { low = middle + 1 } else { high = middle }
            }
            let same = samples[low...].prefix(commonest + 1).prefix { $0.token == token }
            if same.count > commonest { continue }
            for sample in same { counts[sample.number, default: 0] += 1 }
        }
        return counts
    }

    /// A path without what looks like a hash: its folder, and its name.
    static func key(of path: BundlePath) -> (folder: [UInt8], name: [UInt8]) {
        let parts = path.bytes.split(separator: UInt8(ascii: "/")).map(withoutHash)
        return (Array(parts.dropLast().joined(separator: [UInt8(ascii: "/")])), parts.last ?? [])
    }

    private static func withoutHash(_ name: ArraySlice<UInt8>) -> [UInt8] {
        let separators = [UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_")]
        return Array(
            name.split(omittingEmptySubsequences: false, whereSeparator: separators.contains)
                .filter { !isHash($0) }.joined(separator: [UInt8(ascii: ".")]))
    }

    /// Eight letters and digits or more, of which some are digits, or capitals in the midst of small ones.
    private static func isHash(_ part: ArraySlice<UInt8>) -> Bool {
        guard part.count >= 8 else { return false }
        var (digits, smalls, capitals) = (0, 0, 0)
        for byte in part {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digits += 1
            case UInt8(ascii: "a")...UInt8(ascii: "z"): smalls += 1
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): capitals += 1
            default: return false
            }
        }
        return digits > 0 || (smalls > 0 && capitals > 1)
    }
}

/// A sample of what a file holds: hashes of every stretch of 21 bytes that happens to have a certain one.
///
/// Two files that share text share tokens, wherever it stands in them.
struct ContentSketch {
    /// The smallest hashes, sorted, each once.
    let tokens: [UInt64]

    private static let most = 2048

    /// A fixed number for every byte (SplitMix64).
    private static let gears: [UInt64] = (0..<256).map { byte in
        var mixed = (UInt64(byte) &+ 1) &* 0x9E37_79B9_7F4A_7C15
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }

    init(_ bytes: UnsafeRawBufferPointer) {
        var found: [UInt64] = []
        var hash: UInt64 = 0
        Self.gears.withUnsafeBufferPointer { gears in
            for byte in bytes {
                // A byte is shifted out after 21 others; of 32 hashes, one is taken.
                hash = hash << 3 &+ gears[Int(byte)]
                if hash >> 59 == 0 { found.append(hash) }
            }
        }
        found.sort()
        var distinct: [UInt64] = []
        for token in found where distinct.last != token {
            if distinct.count == Self.most { break }
            distinct.append(token)
        }
        tokens = distinct
    }

    /// How many tokens both have.
    func overlap(with other: ContentSketch) -> Int {
        var (left, right, count) = (0, 0, 0)
        while left < tokens.count, right < other.tokens.count {
            if tokens[left] == other.tokens[right] {
                count += 1
                left += 1
                right += 1
            } else if tokens[left] < other.tokens[right] {
                left += 1
            } else {
                right += 1
            }
        }
        return count
    }
}
