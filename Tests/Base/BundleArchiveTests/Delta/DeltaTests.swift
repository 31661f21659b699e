@testable import BundleArchive
import BundleDisk
import BundleSigning
import BundleTesting
import BundleValues
import Glibc
import Synchronization
import Testing

@Suite("DeltaMaker and DeltaReader") struct DeltaTests {
    private static let rounds = getenv("DELTA_PAIRS").flatMap { Int(String(cString: $0)) } ?? 60

    @Test func `reproduces the new tree for random pairs of trees`() throws {
        var generator = SeededGenerator(seed: 15)
        for round in 0..<Self.rounds {
            let trees = try Trees(TreePair.random(&generator))
            let (file, made) = try trees.make()
            #expect(try file.size() == made.size)
            #expect(try trees.apply(file, trees.bounds(made)) == trees.pair.new, "pair \(round)")
        }
    }

    @Test func `has the same bytes on one core and on three`() throws {
        var generator = SeededGenerator(seed: 4)
        let trees = try Trees(TreePair.random(&generator, files: 60))
        var options = DeltaMaker.Options.quick
        let one = try trees.make(options)
        options.workers = 3
        let three = try trees.make(options)
        #expect(one.made == three.made)
        #expect(try one.file.readAll() == three.file.readAll())
    }

    @Test func `searches less thoroughly when many bytes have changed`() throws {
        let lines = text(4000)
        let trees = try Trees(
            TreePair(
                old: ["a.js": lines],
                new: ["a.js": lines.enumerated().map { $0 % 97 == 0 ? 32 : $1 }, "b.js": text(900)]))
        var options = DeltaMaker.Options()
        let changed = lines.count + text(900).count
        options.thoroughBytes = changed
        let thorough = try trees.make(options)
        options.thoroughBytes = changed - 1
        let quick = try trees.make(options)
        #expect(try thorough.file.readAll() != quick.file.readAll())
        #expect(try trees.apply(quick.file, trees.bounds(quick.made)) == trees.pair.new)
    }

    @Test func `stops compressing when the delta exceeds its largest size`() throws {
        let trees = try Trees(
            TreePair(old: [:], new: .init(uniqueKeysWithValues: (0..<9).map { ("\($0).js", text(500, seed: $0)) })))
        var options = DeltaMaker.Options.quick
        options.groupBytes = 1
        let whole = try trees.make(options).made.size
        for (largest, groups) in [(whole, 9), (whole - 1, 9), (whole / 3, 4), (0, 1)] {
            options.largestSize = largest
            let file = try trees.folder.file(creating: randomName("delta-"))
            let done = Mutex<[Int]>([])
            let made = try DeltaMaker(options).make(from: trees.old, to: trees.new, into: file) { bytes, _ in
                done.withLock { $0.append(bytes) }
            }
            #expect(made?.size == (largest == whole ? whole : nil))
            #expect(done.withLock { $0.count } <= groups, "\(largest)")
        }
    }

    private func text(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
        var generator = SeededGenerator(seed: seed)
        return (0..<count).flatMap { _ in Array("line \(UInt64.random(in: .min ... .max, using: &generator))\n".utf8) }
    }

    @Test func `is small for a renamed and changed file`() throws {
        let old = text(2000)
        let trees = try Trees(
            TreePair(
                old: ["index.html": [1], "js/88.abcd1234.js": old, "js/89.12345678.js": text(900, seed: 2)],
                new: ["index.html": [1], "js/12.ffee0011.js": old[..<9000] + [65, 66] + old[9000...]]))
        let (file, made) = try trees.make()
        #expect(made.size < 400, "\(made.size) bytes")
        #expect(try trees.apply(file, trees.bounds(made)) == trees.pair.new)
    }

    @Test func `stores a file that cannot be compressed`() throws {
        var generator = SeededGenerator(seed: 3)
        let noise = (0..<5000).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        let trees = try Trees(TreePair(old: ["index.html": [1]], new: ["index.html": [2], "x.png": noise]))
        let (file, made) = try trees.make()
        #expect(try file.readAll().suffix(5000).elementsEqual(noise))
        #expect(try trees.apply(file, trees.bounds(made)) == trees.pair.new)
    }

    @Test func `needs no more memory than it states, and states no more than allowed`() throws {
        let old = text(20_000)
        let trees = try Trees(TreePair(old: ["index.html": old], new: ["index.html": old + [1]]))
        var options = DeltaMaker.Options.quick
        options.memory = (4 << 20) + 500_000
        let (file, made) = try trees.make(options)
        // The old and new file together exceed the limit, so the old one is not a prefix.
        #expect(made.memory < 1 << 20)
        #expect(try trees.apply(file, trees.bounds(made)) == trees.pair.new)
        let whole = try trees.make()
        #expect(whole.made.size < made.size / 10)
        var bounds = trees.bounds(whole.made)
        #expect(try trees.apply(whole.file, bounds) == trees.pair.new)
        bounds.memory -= 1
        #expect(throws: ArchiveFailure.corrupt("a group needs more memory than stated")) {
            try trees.apply(whole.file, bounds)
        }
    }

    @Test func `matches the example in the reference`() throws {
        let document = try File.open(reading: "\(Checkout.root)/Guide/reference/deltas.md").readAll()
        let text = String(decoding: document, as: UTF8.self)
        let block = try #require(text.split(separator: "```").first { $0.hasPrefix("\n5357 4150") })
        let digits = Array(block.filter { $0.isHexDigit })
        let bytes = stride(from: 0, to: digits.count, by: 2).compactMap {
            UInt8(String(digits[$0...$0 + 1]), radix: 16)
        }
        func page(_ title: String) -> [UInt8] {
            Array("<title>\(title)</title>\n<p>This page stays as it is.</p>\n".utf8)
        }
        let hello = Array("hello\n".utf8)
        let trees = try Trees(
            TreePair(
                old: ["a.txt": hello, "index.html": page("one")], new: ["a.txt": hello, "index.html": page("two")]))
        var bounds = trees.bounds()
        bounds.memory = 179
        #expect(bytes.count == 128)
        #expect(try trees.apply(try trees.file(bytes), bounds) == trees.pair.new)
    }

    @Test func `names a damaged file of its base`() throws {
        let old = text(200)
        let trees = try Trees(
            TreePair(old: ["index.html": old, "kept.js": [1, 2]], new: ["index.html": old + [1], "kept.js": [1, 2]]))
        let (file, made) = try trees.make()
        #expect(try trees.old.firstDamage() == nil)
        try trees.old.tree.replaceFile("index.html", with: [UInt8](repeating: 7, count: old.count))
        #expect(throws: ArchiveFailure.damagedBase("index.html")) { try trees.apply(file, trees.bounds(made)) }
        #expect(try trees.old.firstDamage()?.string == "index.html")
        try trees.old.tree.removeFile("index.html")
        #expect(throws: ArchiveFailure.damagedBase("index.html")) { try trees.apply(file, trees.bounds(made)) }
        try trees.old.tree.replaceFile("index.html", with: old)
        try trees.old.tree.replaceFile("kept.js", with: [1])
        #expect(throws: ArchiveFailure.damagedBase("kept.js")) { try trees.apply(file, trees.bounds(made)) }
    }
}

@Suite("DeltaReader with hostile deltas") struct HostileDeltaTests {
    /// Returns a delta with this index, followed by groups and stored bytes.
    private func delta(_ index: [UInt8], behind: [UInt8] = []) throws -> [UInt8] {
        let frame = try Self.frame(index)
        return DeltaFormat.header(frameBytes: frame.count, bytes: index.count) + frame + behind
    }

    private static func frame(_ bytes: [UInt8]) throws -> [UInt8] {
        try bytes.withUnsafeBytes {
            try PrefixedFrameWriter().frame(
                of: $0, behind: UnsafeRawBufferPointer(start: nil, count: 0), level: 3,
                windowLog: PrefixedFrameWriter.windowLog(over: bytes.count))
        }
    }

    private func trees() throws -> Trees {
        try Trees(
            TreePair(
                old: ["a.js": [1], "index.html": [1, 2, 3], "z.js": [4]],
                new: ["a.js": [1], "index.html": [9, 9], "z.js": [4]]))
    }

    private typealias Group = DeltaFormat.FileGroup
    private typealias Step = DeltaFormat.TreeStep

    /// Indexes with the reason for their rejection.
    @Test(arguments: [
        ("builds on another tree", [] as [DeltaFormat.FileGroup], [DeltaFormat.TreeStep.keep(count: 3)], 2, 3),
        ("more files than stated", [], [.keep(count: 3)], 3, 4),
        ("uses more files", [], [.keep(count: 4)], 3, 3),
        ("uses more files", [], [.skip(count: 4)], 3, 3),
        ("uses more files", [], [.keep(count: 3), .change(growth: 0, isStored: false)], 3, 3),
        ("not in order", [], [.keep(count: 2), .add(path: Array("b".utf8), size: 0, isStored: false)], 3, 3),
        ("not in order", [], [.keep(count: 1), .copy(path: Array("a.js".utf8), source: 1)], 3, 3),
        ("not in the base", [], [.copy(path: Array("a".utf8), source: 3)], 3, 3),
        ("not have the stated number", [], [.keep(count: 2)], 3, 3),
        ("longer than its groups", [], [.change(growth: 4, isStored: false)], 3, 3),
        ("truncated", [], [.change(growth: 4, isStored: true)], 3, 3),
        ("negative size", [], [.change(growth: -2, isStored: false)], 3, 3),
        ("too many groups", [Group](repeating: Group(frameBytes: 1, bytes: 1, prefix: []), count: 4), [], 3, 3),
        ("has no bytes", [Group(frameBytes: 0, bytes: 1, prefix: [])], [], 3, 3),
        ("has no bytes", [Group(frameBytes: 1, bytes: 0, prefix: [])], [], 3, 3),
        ("larger than the delta", [Group(frameBytes: 1 << 40, bytes: 1, prefix: [])], [], 3, 3),
        ("more bytes than stated", [Group(frameBytes: 1, bytes: 5, prefix: [])], [], 3, 3),
        ("more old files", [Group(frameBytes: 1, bytes: 1, prefix: [0, 0, 0, 0])], [], 3, 3),
        ("not in the base", [Group(frameBytes: 1, bytes: 1, prefix: [3])], [], 3, 3),
        ("not in the base", [Group(frameBytes: 1, bytes: 1, prefix: [-1])], [], 3, 3),
    ])
    func `rejects an invalid index`(
        reason: String, groups: [DeltaFormat.FileGroup], steps: [DeltaFormat.TreeStep], baseFiles: Int, files: Int
    ) throws {
        let trees = try trees()
        let index = DeltaFormat.index(
            from: trees.old.contentSha256, files: baseFiles, to: trees.new.contentSha256, files: files, groups: groups,
            steps: steps)
        let failure = #expect(throws: ArchiveFailure.self) {
            try trees.apply(try trees.file(delta(index, behind: [0])), trees.bounds())
        }
        #expect(failure?.description.contains(reason) == true, "\(String(describing: failure))")
    }

    @Test func `rejects a delta of another base`() throws {
        let trees = try trees()
        let index = DeltaFormat.index(
            from: trees.new.contentSha256, files: 3, to: trees.new.contentSha256, files: 3, groups: [],
            steps: [.keep(count: 3)])
        #expect(throws: ArchiveFailure.corrupt("it builds on another tree")) {
            try trees.apply(try trees.file(delta(index)), trees.bounds())
        }
    }

    @Test(
        arguments: [
            ([0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], "too long"), ([0x80, 0x00], "too long"),
            ([0x80], "truncated"), ([0x07], "unknown step"), ([0x00], "unknown step"),
            ([0x01], "unknown step"), ([0x03, 0x05, 0x01, 0x61], "invalid path"),
            ([0x03, 0x00, 0x81, 0x80, 0x01], "invalid path"), ([0x03, 0x00, 0x05, 0x61], "truncated"),
        ] as [([UInt8], String)])
    func `rejects bytes that are not a step`(bytes: [UInt8], reason: String) throws {
        let trees = try trees()
        let index = DeltaFormat.index(
            from: trees.old.contentSha256, files: 3, to: trees.new.contentSha256, files: 3, groups: [], steps: [])
        let failure = #expect(throws: ArchiveFailure.self) {
            try trees.apply(try trees.file(delta(index + bytes)), trees.bounds())
        }
        #expect(failure?.description.contains(reason) == true, "\(String(describing: failure))")
    }

    @Test func `rejects an index that unpacks to too many bytes before unpacking it`() throws {
        let trees = try trees()
        let bomb = [UInt8](repeating: 0, count: DeltaFormat.maximumIndexBytes(files: 3) + 1)
        let larger = ArchiveFailure.corrupt("its index is larger than stated")
        #expect(throws: larger) { try trees.apply(try trees.file(delta(bomb)), trees.bounds()) }
        // A frame that states a small size.
        let frame = try Self.frame(bomb)
        let lying = DeltaFormat.header(frameBytes: frame.count, bytes: 100) + frame
        #expect(throws: ArchiveFailure.corrupt("a group does not have the stated size")) {
            try trees.apply(try trees.file(lying), trees.bounds())
        }
        var bounds = trees.bounds()
        bounds.memory = 99
        #expect(throws: larger) { try trees.apply(try trees.file(lying), bounds) }
    }

    @Test func `rejects another version and a file that is not a delta`() throws {
        let trees = try trees()
        let good = try trees.make().file.readAll()
        for (bytes, reason) in [
            ([], "does not start"), (Array(good[..<15]), "does not start"),
            (Array("<html>and so on".utf8) + [0, 0], "start"),
            (good[..<7] + [2] + good[8...], "another version"),
        ] as [([UInt8], String)] {
            let failure = #expect(throws: ArchiveFailure.self) {
                try trees.apply(try trees.file(bytes), trees.bounds())
            }
            #expect(failure?.description.contains(reason) == true, "\(String(describing: failure))")
        }
    }

    @Test func `does not decode a group with another prefix`() throws {
        let old = (0..<400).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let trees = try Trees(
            TreePair(old: ["a.js": old.reversed(), "index.html": old], new: ["index.html": old + [1]]))
        let steps = [Step.skip(count: 1), .change(growth: 1, isStored: false)]
        let frame = try (DeltaFormat.bytes(of: steps) + old).withUnsafeBytes { prefix in
            try (old + [1]).withUnsafeBytes {
                try PrefixedFrameWriter().frame(of: $0, behind: prefix, level: 19, windowLog: 12)
            }
        }
        for (number, isRight) in [(1, true), (0, false)] {
            let index = DeltaFormat.index(
                from: trees.old.contentSha256, files: 2, to: trees.new.contentSha256, files: 1,
                groups: [.init(frameBytes: frame.count, bytes: 401, prefix: [number])],
                steps: steps)
            let file = try trees.file(delta(index, behind: frame))
            if isRight {
                #expect(try trees.apply(file, trees.bounds()) == trees.pair.new)
            } else {
                #expect(throws: ArchiveFailure.self) { try trees.apply(file, trees.bounds()) }
            }
        }
    }

    @Test func `rejects frames with wrong sizes`() throws {
        let trees = try trees()
        let nine = try Self.frame([9, 9])
        func failure(_ frame: [UInt8], frameBytes: Int? = nil, bytes: Int = 2, behind: [UInt8] = []) throws -> String {
            let index = DeltaFormat.index(
                from: trees.old.contentSha256, files: 3, to: trees.new.contentSha256, files: 3,
                groups: [Group(frameBytes: frameBytes ?? frame.count, bytes: bytes, prefix: [])],
                steps: [.keep(count: 1), .change(growth: -1, isStored: false), .keep(count: 1)])
            do {
                _ = try trees.apply(try trees.file(delta(index, behind: frame + behind)), trees.bounds())
                return ""
            } catch { return "\(error)" }
        }
        #expect(try failure(nine) == "")
        #expect(try failure(nine, behind: [0]).contains("follow the end"))
        #expect(try failure(nine + [0]).contains("follow a group"))
        #expect(try failure(nine, frameBytes: nine.count - 1).contains("truncated"))
        #expect(try failure(Self.frame([9, 9, 9])).contains("not have the stated size"))
        #expect(try failure(Self.frame([9, 9, 9]), bytes: 3).contains("larger than its files"))
        #expect(try failure(Self.frame([9]), bytes: 1).contains("longer than its groups"))
        #expect(try failure([0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 1, 1]).contains("does not begin with a zstd frame"))
        #expect(try failure([0]).contains("does not begin with a zstd frame"))
    }

    @Test func `rejects a truncated or changed delta, or returns the original bytes`() throws {
        var generator = SeededGenerator(seed: 77)
        let trees = try Trees(TreePair.random(&generator, files: 12))
        let (file, made) = try trees.make()
        let good = try file.readAll()
        for count in 0..<good.count where count % 7 == 0 {
            #expect(throws: ArchiveFailure.self, "\(count) bytes") {
                try trees.apply(try trees.file(Array(good[..<count])), trees.bounds(made))
            }
        }
        for _ in 0..<300 {
            var bytes = good
            bytes[Int.random(in: 0..<good.count, using: &generator)] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            // The reader does not check stored bytes; the caller compares the digest of the content.
            _ = try? trees.apply(try trees.file(bytes), trees.bounds(made))
        }
    }
}

@Suite("PartnerRule") struct PartnerRuleTests {
    private func path(_ text: String) throws -> BundlePath { try BundlePath(parsing: text) }

    private func sketch(_ seed: UInt64, from: Int = 0, lines: Int = 400) -> ContentSketch {
        var generator = SeededGenerator(seed: seed)
        let text = (0..<400).flatMap { _ in
            (0..<2).flatMap { Array("x\($0)=\(UInt64.random(in: .min ... .max, using: &generator));".utf8) }
        }
        let start = text.count * from / 400
        return text[start..<min(text.count, start + text.count * lines / 400)].withUnsafeBytes { ContentSketch($0) }
    }

    @Test func `chooses the file with similar content in the same folder`() throws {
        let old = try ["js/1.aaaaaaaa1.js", "js/2.bbbbbbbb1.js", "es5/1.cccccccc1.js"].map(path)
        var rule = PartnerRule(old)
        let new = try path("js/3.dddddddd1.js")
        #expect(rule.candidates(for: new) == [0, 1])
        #expect(!rule.hasSketches(besides: new))
        rule.addSketches([(0, sketch(1)), (1, sketch(2))], besides: new)
        #expect(rule.hasSketches(besides: new))
        #expect(rule.partner(of: new, sketch(2, from: 100)) == 1)
        #expect(rule.partner(of: new, sketch(9)) == nil)
    }

    @Test func `chooses the file of the same name without hashes unless another is much more similar`() throws {
        let old = try ["js/app.11112222.js", "js/app.33334444.js", "js/list.55556666.js"].map(path)
        var rule = PartnerRule(old)
        let new = try path("js/app.77778888.js")
        rule.addSketches([(0, sketch(1)), (1, sketch(2)), (2, sketch(3))], besides: new)
        #expect(rule.partner(of: new, sketch(2)) == 1)
        #expect(rule.partner(of: new, sketch(3)) == 2)
        #expect(rule.partner(of: new, sketch(8)) == 0)
        #expect(rule.partner(of: try path("other/app.77778888.js"), sketch(2)) == nil)
    }

    @Test(arguments: [
        ("static/5f3a9c01/app.js", "static", "app.js"), ("js/index-DkXyZabQ.js", "js", "index.js"),
        ("js/app.min.js", "js", "app.min.js"), ("10006.5b8e2b3f.chunk.js", "", "10006.chunk.js"),
        ("fonts/roboto_v20.woff2", "fonts", "roboto.v20.woff2"), ("js/component.js", "js", "component.js"),
    ])
    func `removes hashes from folder and file names`(text: String, folder: String, name: String) throws {
        let key = PartnerRule.key(of: try path(text))
        #expect(String(decoding: key.folder, as: UTF8.self).split(separator: "/").joined(separator: "/") == folder)
        #expect(String(decoding: key.name, as: UTF8.self) == name)
    }

    @Test func `finds common tokens at any offset`() {
        let whole = sketch(5)
        #expect(whole.tokens.count > 200)
        #expect(whole.overlap(with: sketch(5, from: 50)) * 10 > whole.tokens.count * 8)
        #expect(whole.overlap(with: sketch(6)) == 0)
    }
}
