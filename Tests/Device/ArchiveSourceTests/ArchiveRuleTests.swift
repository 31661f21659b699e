import BundleValues
import ArchiveSource
import BundleCore
import Testing

@Suite struct ArchiveNameTests {
    static let refused: [(names: [String], rule: String)] = [
        (["a.js", "a.js"], "duplicate-entry"),
        (["a.js", "b.js", "./a.js"], "duplicate-entry"),
        (["index.html"], "duplicate-entry"),
        (["a", "a/b"], "path-conflict"),
        (["a/b", "a"], "path-conflict"),
        (["a/b/c", "a/b"], "path-conflict"),
        (["a/", "a"], "path-conflict"),
        (["a", "a/"], "path-conflict"),
        (["a", "a/b/c/d"], "path-conflict"),
        (["a.js", "A.js"], "case-collision"),
        (["a/x", "A/y"], "case-collision"),
        (["a/", "A/"], "case-collision"),
        (["a/b/c", "a/b/d", "a/B/c"], "case-collision"),
        (["a", "A/"], "case-collision"),
        (["k", "\u{212A}"], "case-collision"),
        (["\u{DF}", "ss"], "case-collision"),
        (["i\u{307}x", "\u{130}X"], "case-collision"),
        (["..", "a"], "path-traversal"),
        (["a/../../b"], "path-traversal"),
        (["../"], "path-traversal"),
        (["/a"], "path-absolute"),
        (["a//b"], "name-not-canonical"),
        (["a/./b"], "name-not-canonical"),
        (["a\\b"], "name-forbidden-char"),
        (["a\u{7}"], "name-forbidden-char"),
        (["a\u{202E}b"], "name-forbidden-char"),
    ]

    @Test(arguments: refused) func `rejects an archive with invalid or conflicting names`(
        _ names: [String], _ rule: String
    ) throws {
        #expect(try TarOf.rule(names.map { TarItem($0) }) == rule)
    }

    static let accepted = [
        ["./", "a"], ["a/", "a/", "a/b"], ["a/b", "a/", "a/c"], ["x/a", "y/A"], ["a/b/c", "d/e", "a/b/f", "d/g"],
        ["./a", "./b/", "./b/c"], ["a.", ".a", "..a", "a..", "..."], ["a b", " "], ["b", "a"],
        ["a/x", "b", "a/y", "b2", "a/z"],
    ]

    @Test(arguments: accepted) func `accepts an archive with valid names`(_ names: [String]) throws {
        #expect(try TarOf.rule(names.map { TarItem($0) }) == nil)
    }
}

@Suite struct ArchiveLimitsTests {
    private func limits(_ change: (inout ArchiveLimits) -> Void) -> ArchiveLimits {
        var limits = ArchiveLimits()
        change(&limits)
        return limits
    }

    private func file(_ name: String, _ size: Int) -> TarItem { TarItem(name, [UInt8](repeating: 0x61, count: size)) }

    /// The size of `index.html`.
    private let index = TarItem.index.content.count

    @Test func `rejects files with too many bytes in total`() throws {
        let limits = limits { $0.installedBytes = index + 100 }
        #expect(try TarOf.rule([file("a", 60), file("b", 40)], limits: limits) == nil)
        #expect(try TarOf.rule([file("a", 60), file("b", 41)], limits: limits) == "unpacked-too-large")
        #expect(try TarOf.rule([file("a", 101)], limits: limits) == "unpacked-too-large")
    }

    @Test func `rejects a file with too many bytes`() throws {
        let limits = limits { $0.fileBytes = 100 }
        #expect(try TarOf.rule([file("a", 100), file("b", 100)], limits: limits) == nil)
        #expect(try TarOf.rule([file("a", 101)], limits: limits) == "file-too-large")
    }

    @Test func `counts files, folders and the root as entries`() throws {
        let limits = limits { $0.entries = 3 }
        #expect(try TarOf.rule([TarItem("a/"), file("a/b", 1)], limits: limits) == nil)
        #expect(try TarOf.rule([TarItem("a/"), file("a/b", 1), TarItem("a/")], limits: limits) == "too-many-entries")
        #expect(try TarOf.rule([TarItem("./"), file("a", 1), file("b", 1)], limits: limits) == "too-many-entries")
    }

    @Test func `counts the folders that names imply, in any order`() throws {
        let limits = limits { $0.entries = 8 }
        let items = [file("a/b/c/d/1", 1), file("a/b/e/f/2", 1), TarItem("g/"), file("g/h/3", 1)]
        #expect(try TarOf.rule(items, limits: limits) == nil)
        for more in [[file("a/i/4", 1)], [TarItem("j/k/")]] {
            #expect(try TarOf.rule(items + more, limits: limits) == "too-many-entries")
            #expect(try TarOf.rule(more + items.reversed(), limits: limits) == "too-many-entries")
        }
    }

    @Test func `rejects a high compression ratio after the first megabytes`() throws {
        let zeros = [file("a", 3 << 20)]
        let limits = limits {
            $0.ratio = 50
            $0.ratioGrace = 1 << 20
        }
        #expect(try TarOf.rule(zeros, limits: limits, compressed: true) == "ratio")
        #expect(try TarOf.rule(zeros, limits: limits) == nil)
        var patient = limits
        patient.ratioGrace = 4 << 20
        #expect(try TarOf.rule(zeros, limits: patient, compressed: true) == nil)
    }

    @Test func `rejects an archive that takes too long to unpack`() throws {
        #expect(try TarOf.rule([], limits: limits { $0.time = .zero }) == "too-slow")
        #expect(try TarOf.rule([], limits: limits { $0.time = .zero }, compressed: true) == "too-slow")
    }

    @Test func `accepts more entries if the device raises its limit`() async throws {
        let path = "\(Fixtures.root)/hostile/zip-entries-20001-files.zip"
        let device = try Device()
        #expect(try await device.refusal(of: path, as: "1.0.0")?.subject.hasPrefix("too-many-entries") == true)
        let report = try await device.install(path, as: "1.0.0", limits: limits { $0.entries = 20_001 })
        #expect(report.bundle?.entry.fileCount == 20_001)
    }

    @Test func `rejects signed numbers above the limits before the download`() async throws {
        let device = try Device()
        let path = try device.tar([file("a", 1000)])
        let cases: [(ArchiveLimits, String, @Sendable (inout Manifest) -> Void)] = [
            (limits { $0.archiveBytes = 10 }, "archive-too-large", { _ in }),
            (limits { $0.installedBytes = 10 }, "unpacked-too-large", { $0.installedSize = 11 }),
            (limits { $0.entries = 10 }, "too-many-entries", { $0.fileCount = 11 }),
        ]
        for (limits, rule, change) in cases {
            let refusal = try await device.refusal(of: path, as: "1.0.0", limits: limits) {
                change(&$0)
                $0.url = "file:///nowhere/at/all"
            }
            #expect(refusal?.code == .archiveRejected)
            #expect(refusal?.subject == rule)
        }
    }

    @Test func `rejects more bytes than the manifest states`() async throws {
        let device = try Device()
        let refusal = try await device.refusal(of: try device.tar([file("a", 1000)]), as: "1.0.0") {
            $0.installedSize = index + 999
        }
        #expect(refusal?.code == .archiveRejected)
        #expect(refusal?.subject == "unpacked-too-large: a")
    }
}
