import BundleValues

/// Chooses the partner of each new file, which is the old file that it is most similar to.
///
/// The partner is the old file at the same path. Without one, it is the old file in the same folder that shares most of
/// the content, unless the file of the same name without its hash shares about as much. Bundlers rename and renumber
/// files, and a similar file in another folder is built for other browsers.
struct PartnerRule {
    private struct TokenSample {
        let token: UInt64
        let number: Int
    }

    /// The old files of folders with one name, ignoring hashes in it.
    private struct FolderFiles {
        var numbers: [Int] = []
        var byName: [[UInt8]: [Int]] = [:]
        var samples: [TokenSample] = []
    }

    /// Tokens in more old files than this are ignored, because all chunks start with similar code.
    private static let commonest = 32

    private let old: [BundlePath]
    private var folders: [[UInt8]: FolderFiles] = [:]

    init(_ old: [BundlePath]) {
        self.old = old
        for (number, path) in old.enumerated() {
            let (folder, name) = Self.key(of: path)
            folders[folder, default: FolderFiles()].numbers.append(number)
            folders[folder, default: FolderFiles()].byName[name, default: []].append(number)
        }
    }

    /// Returns the old files in the folder of `path`.
    func candidates(for path: BundlePath) -> [Int] { folders[Self.key(of: path).folder]?.numbers ?? [] }

    /// Adds the content of all old files in the folder of `path`. Call it before `partner(of:_:)`.
    mutating func addSketches(_ sketches: [(number: Int, sketch: ContentSketch)], besides path: BundlePath) {
        let samples = sketches.flatMap { entry in
            entry.sketch.tokens.map { TokenSample(token: $0, number: entry.number) }
        }
        folders[Self.key(of: path).folder]?.samples = samples.sorted {
            ($0.token, $0.number) < ($1.token, $1.number)
        }
    }

    /// Whether `addSketches` was called for the folder of `path`.
    func hasSketches(besides path: BundlePath) -> Bool { folders[Self.key(of: path).folder]?.samples.isEmpty == false }

    /// Returns the partner of a new file at `path`, or nil if no file is similar.
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

    private static func overlaps(of sketch: ContentSketch, in samples: [TokenSample]) -> [Int: Int] {
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

    /// Returns the folder and name of a path without parts that look like hashes.
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

    /// Whether a part has at least eight letters and digits, with digits or with mixed case.
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

/// A sample of the content of a file: hashes of windows of 21 bytes, selected by their value.
///
/// Two files with common text have common tokens, at any offset.
struct ContentSketch {
    /// The smallest hashes, sorted and unique.
    let tokens: [UInt64]

    private static let most = 2048

    /// A constant for each byte (SplitMix64).
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
                // A byte leaves the hash after 21 others. One of 32 hashes is selected.
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

    /// Returns the number of common tokens.
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
