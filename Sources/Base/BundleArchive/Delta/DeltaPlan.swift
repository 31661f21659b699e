import BundleSigning
import BundleValues

/// The plan of a delta before compression.
struct DeltaPlan {
    /// Changed files that are compressed together.
    struct PlannedGroup: Equatable {
        /// The numbers of the new files in order.
        var files: [Int] = []
        /// The numbers of the old files in the prefix.
        var prefix: [Int] = []
        /// The size of the new files in bytes.
        var bytes = 0
        /// The size of the old files in bytes.
        var prefixBytes = 0

        /// Returns the window as log2. With a prefix it covers everything.
        func windowLog(behind steps: Int) -> Int {
            prefix.isEmpty
                ? min(PrefixedFrameWriter.windowLog(over: bytes + steps), Self.plainWindowLog)
                : PrefixedFrameWriter.windowLog(over: bytes + prefixBytes + steps)
        }

        /// Returns the memory that a reader needs, in bytes.
        func memory(behind steps: Int) -> Int { steps + prefixBytes + min(bytes, 1 << windowLog(behind: steps)) }

        /// 8 MiB. Large files without a prefix do not need more.
        private static let plainWindowLog = 23

        mutating func add(_ number: Int, size: Int, partner: (number: Int, size: Int)?) {
            files.append(number)
            bytes += size
            guard let partner, partner.size > 0, !prefix.contains(partner.number) else { return }
            prefix.append(partner.number)
            prefixBytes += partner.size
        }
    }

    private(set) var steps: [DeltaFormat.TreeStep] = []
    private(set) var groups: [PlannedGroup] = []
    /// The numbers of the new files that are stored uncompressed.
    private(set) var stored: [Int] = []

    private let options: DeltaMaker.Options
    private let base: DeltaTree
    private let target: DeltaTree

    /// Compares two trees.
    init(from base: DeltaTree, to target: DeltaTree, options: DeltaMaker.Options) throws {
        self.options = options
        self.base = base
        self.target = target
        let (old, new) = (try base.digests(), try target.digests())
        var sameContent: [SHA256Digest: Int] = [:]
        for (number, digest) in old.enumerated().reversed() { sameContent[digest] = number }
        var partners = try Partners(from: base, to: target)
        var baseNumber = 0
        for (number, entry) in target.files.enumerated() {
            let first = baseNumber
            while baseNumber < base.files.count, base.files[baseNumber].path < entry.path { baseNumber += 1 }
            if baseNumber > first { append(.skip(count: baseNumber - first)) }
            let isThere = baseNumber < base.files.count && base.files[baseNumber].path == entry.path
            if isThere, old[baseNumber] == new[number] {
                append(.keep(count: 1))
                baseNumber += 1
            } else if let source = sameContent[new[number]] {
                // The next step visits the old file at this path.
                append(.copy(path: entry.path.bytes, source: source))
            } else {
                try appendNew(number, at: isThere ? baseNumber : nil, partners: &partners)
                if isThere { baseNumber += 1 }
            }
        }
    }

    private mutating func appendNew(_ number: Int, at path: Int?, partners: inout Partners) throws {
        let entry = target.files[number]
        let found = try partners.find(number, at: path)
        let isStored = found.isIncompressible
        steps.append(
            path.map { .change(growth: entry.size - base.files[$0].size, isStored: isStored) }
                ?? .add(path: entry.path.bytes, size: entry.size, isStored: isStored))
        if isStored { stored.append(number) } else if entry.size > 0 { add(number, partner: found.partner) }
    }

    private mutating func append(_ step: DeltaFormat.TreeStep) {
        switch (steps.last, step) {
        case (.keep(let before)?, .keep(let count)): steps[steps.count - 1] = .keep(count: before + count)
        case (.skip(let before)?, .skip(let count)): steps[steps.count - 1] = .skip(count: before + count)
        default: steps.append(step)
        }
    }

    private mutating func add(_ number: Int, partner: Int?) {
        let size = target.files[number].size
        let partner = partner.map { (number: $0, size: base.files[$0].size) }
        let most = options.groupBytes
        if var grown = groups.last {
            grown.add(number, size: size, partner: partner)
            if grown.bytes <= most, grown.bytes + grown.prefixBytes <= 2 * most {
                groups[groups.count - 1] = grown
                return
            }
        }
        var group = PlannedGroup()
        group.add(number, size: size, partner: partner)
        // Files that do not fit into the memory of a device get no prefix.
        if group.memory(behind: 0) > options.memory - Self.indexRoom || group.bytes + group.prefixBytes > 1 << 27 {
            group = PlannedGroup()
            group.add(number, size: size, partner: nil)
        }
        groups.append(group)
    }

    /// The part of the memory for the index.
    private static let indexRoom = 4 << 20
}

/// Finds the partner of each new file and reads as few files as possible.
private struct Partners {
    private let base: DeltaTree
    private let target: DeltaTree
    private var rule: PartnerRule
    private let press: PrefixedFrameWriter

    init(from base: DeltaTree, to target: DeltaTree) throws {
        self.base = base
        self.target = target
        rule = PartnerRule(base.files.map(\.path))
        press = try PrefixedFrameWriter()
    }

    /// Returns the partner of a new file, if any, and whether the file should be stored. `path` is the number of the old
    /// file at its path.
    mutating func find(_ number: Int, at path: Int?) throws -> (partner: Int?, isIncompressible: Bool) {
        let entry = target.files[number]
        let bytes = try target.contents(of: entry)
        let isIncompressible = try self.isIncompressible(bytes)
        if path != nil, !isIncompressible { return (path, false) }
        let sketch = bytes.withUnsafeBytes { ContentSketch($0) }
        var partner = path
        if partner == nil {
            if !rule.hasSketches(besides: entry.path) {
                rule.addSketches(
                    try rule.candidates(for: entry.path).map { ($0, try self.sketch(of: $0)) },
                    besides: entry.path)
            }
            partner = rule.partner(of: entry.path, sketch)
        }
        if !isIncompressible { return (partner, false) }
        guard let partner else { return (nil, true) }
        // A slightly changed image is similar to its old version, although it cannot be compressed alone.
        let isAlike = sketch.overlap(with: try self.sketch(of: partner)) * 20 > sketch.tokens.count
        return (partner, !isAlike)
    }

    /// Returns the sketch of an old file.
    private func sketch(of number: Int) throws -> ContentSketch {
        try base.contents(of: base.files[number]).withUnsafeBytes { ContentSketch($0) }
    }

    /// Whether compression does not reduce the beginning of the file, as with images and compressed copies.
    private func isIncompressible(_ bytes: [UInt8]) throws -> Bool {
        guard bytes.count >= 256 else { return false }
        return try bytes.withUnsafeBytes { all in
            let sample = UnsafeRawBufferPointer(rebasing: all.prefix(64 << 10))
            let frame = try press.frame(
                of: sample, level: 1, windowLog: PrefixedFrameWriter.windowLog(over: sample.count))
            return frame.count * 100 > sample.count * 97
        }
    }
}
