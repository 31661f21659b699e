import BundleDisk
import BundleSigning
import BundleTesting
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

struct LedgerTests {
    // MARK: On the disk

    @Test func `reads any ledger as it was written`() throws {
        var generator = SeededGenerator(seed: 0x1ED6E4)
        let folder = try TemporaryDirectory.ofTests()
        for _ in 0..<300 {
            let ledger = try Self.random(&generator)
            try LedgerFile.write(ledger, to: folder.directory)
            let read = try #require(try LedgerFile.read(folder.directory))
            #expect(read == ledger)
            // Swift compares strings by canonical equivalence, but the bytes must be equal.
            #expect(JSONWriter.bytes(of: .object(read.object)) == JSONWriter.bytes(of: .object(ledger.object)))
        }
        #expect(try folder.directory.list() == [StoreLayout.ledger])
    }

    @Test func `returns no ledger for a store without one`() throws {
        #expect(try LedgerFile.read(try TemporaryDirectory.ofTests().directory) == nil)
    }

    private static let good = """
        {"schema":4,"appId":"org.example.a","current":"v1.0.0","previous":"embedded","lastKnownGood":"embedded",\
        "sources":["meteor","archive"],"starts":[],"feed":{"groups":[],"channels":[]},"versions":[{"version":"1.0.0",\
        "source":"archive","minShellVersion":"1.0.0","maxShellVersion":"2.0.0",\
        "contentSha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","installedSize":7,\
        "fileCount":2,"installedAt":"2026-11-21T21:09:38Z"},{"version":"1.1.0","source":"archive",\
        "minShellVersion":"1.0.0","contentSha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",\
        "installedSize":8,"fileCount":3,"installedAt":"2026-11-21T21:09:39Z"}],"blocked":[{"version":"0.9.0",\
        "source":"archive","cause":"byHand","count":0,"reason":"it crashed","since":"2026-11-21T21:09:38Z"}]}
        """

    /// Returns `text` with its checksum, or unchanged if it is not JSON.
    private static func sealed(_ text: String) throws -> String {
        let bytes = Array(text.utf8)
        guard let object = (try? JSONScanner.parse(bytes, maximumBytes: bytes.count))?.objectValue else { return text }
        let checksum = try SHA256Digest.of(JSONWriter.bytes(of: .object(object)))
        return "\(text.dropLast()),\"checksum\":\"\(checksum.hex)\"}"
    }

    private static func write(_ text: String, to folder: TemporaryDirectory) throws {
        try Array(text.utf8).withUnsafeBytes { try folder.directory.createFile(StoreLayout.ledger, with: $0) }
    }

    @Test func `reads every member`() throws {
        let folder = try TemporaryDirectory.ofTests()
        try Self.write(Self.sealed(Self.good), to: folder)
        let ledger = try #require(try LedgerFile.read(folder.directory))
        #expect(ledger.appId == "org.example.a")
        #expect(ledger.current == .installed(try Sample.version("1.0.0")))
        #expect(ledger.previous == .embedded)
        #expect(ledger.entries.map(\.version.description) == ["1.0.0", "1.1.0"])
        #expect(ledger.sources == .standard)
        let entry = try #require(ledger.entries.first)
        #expect(entry.identity.source == .archive)
        #expect(entry.shells?.maximum == (try Sample.version("2.0.0")))
        #expect(entry.contentSha256 == (try SHA256Digest.of([])))
        #expect(entry.installedSize == 7)
        #expect(entry.fileCount == 2)
        #expect(entry.installedAt.description == "2026-11-21T21:09:38Z")
        #expect(ledger.entries.last?.shells?.maximum == nil)
        #expect(ledger.blocks.map(\.reason) == ["it crashed"])
    }

    @Test(arguments: [
        (#""schema":4"#, #""schema":0"#, "ledger.schema is 0, which only programs before 0.9.0 wrote"),
        (#""schema":4,"#, "", "ledger.schema is missing"),
        (#""appId":"org.example.a""#, #""appId":5"#, "ledger.appId is not a string"),
        (#""current":"v1.0.0""#, #""current":"1.0.0""#, "ledger.current is not a client's name"),
        (#""current":"v1.0.0","#, "", "ledger.current is missing"),
        (#""lastKnownGood":"embedded","#, "", "ledger.lastKnownGood is missing"),
        (#""previous":"embedded""#, #""previous":"../x""#, "ledger.previous is not a client's name"),
        (#""version":"1.1.0""#, #""version":"v1.1.0""#, "ledger.versions[1].version is refused"),
        (#""version":"1.1.0""#, #""version":"1.0.0""#, "ledger.versions names a version twice"),
        (
            #""source":"archive","minShellVersion":"1.0.0","max"#, #""minShellVersion":"1.0.0","max"#,
            "ledger.versions[0].source is missing"
        ),
        (#""maxShellVersion":"2.0.0""#, #""maxShellVersion":"0.9.0""#, "ledger.versions[0].maxShellVersion is refused"),
        ("e3b0c442", "E3B0C442", "ledger.versions[0].contentSha256 is refused"),
        (#""installedSize":7"#, #""installedSize":-7"#, "ledger.versions[0].installedSize is not an integer"),
        (#""fileCount":3"#, #""fileCount":"3""#, "ledger.versions[1].fileCount is not an integer"),
        ("21:09:39Z", "21:09:39+00:00", "ledger.versions[1].installedAt is refused"),
        (#""blocked":[{"#, #""blocked":[7,{"#, "ledger.blocked[0] is not a JSON object"),
        (#""reason":"it crashed","#, "", "ledger.blocked[0].reason is missing"),
        (#""source":"archive","cause":"#, #""cause":"#, "ledger.blocked[0].source is missing"),
        (#""blocked":[{"#, #""versions":[],"blocked":[{"#, "versions"),
        (#""since":"2026-11-21T21:09:38Z"}]}"#, #""since":"2026-11-21T21:09:38Z"}]"#, "cannot be read"),
        (#"{"schema""#, "\u{FEFF}{\"schema\"", "cannot be read"),
    ])
    func `reports a damaged member of the ledger by name`(part: String, instead: String, message: String) throws {
        let spoilt = Self.good.replacingFirst(part, with: instead)
        #expect(spoilt != Self.good)
        let folder = try TemporaryDirectory.ofTests()
        try Self.write(Self.sealed(spoilt), to: folder)
        let failure = try #require(throws: UpdateFailure.self) { try LedgerFile.read(folder.directory) }
        #expect(failure.code == .storeDamaged)
        #expect(failure.subject == folder.directory.path + "/ledger.json")
        #expect(failure.message.contains(message))
    }

    @Test(arguments: ["", #","checksum":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855""#])
    func `reports a ledger without a checksum or with another one`(member: String) throws {
        let folder = try TemporaryDirectory.ofTests()
        try Self.write("\(Self.good.dropLast())\(member)}", to: folder)
        let failure = try #require(throws: UpdateFailure.self) { try LedgerFile.read(folder.directory) }
        #expect(failure.code == .storeDamaged)
        #expect(failure.message.contains("ledger.checksum \(member.isEmpty ? "is missing" : "does not match")"))
    }

    @Test func `reports a folder with the ledger's name as damage`() throws {
        let folder = try TemporaryDirectory.ofTests()
        try folder.directory.makeDirectory(StoreLayout.ledger)
        let failure = try #require(throws: UpdateFailure.self) { try LedgerFile.read(folder.directory) }
        #expect(failure.code == .storeDamaged)
    }

    @Test func `reports a ledger that is too large as damage`() throws {
        let folder = try TemporaryDirectory.ofTests()
        try folder.directory.file(creating: StoreLayout.ledger).truncate(to: (16 << 20) + 1)
        let failure = try #require(throws: UpdateFailure.self) { try LedgerFile.read(folder.directory) }
        #expect(failure.code == .storeDamaged)
    }

    // MARK: As a value

    @Test func `stores the previous client once when a client is selected`() throws {
        var ledger = Ledger()
        #expect(ledger.current == .embedded)
        ledger.select(.embedded)
        #expect(ledger.previous == nil)
        ledger.select(try Sample.name("1.0.0"))
        #expect(ledger.previous == .embedded)
        ledger.select(try Sample.name("1.0.0"))
        #expect(ledger.previous == .embedded)
        ledger.select(try Sample.name("1.1.0"))
        #expect(ledger.current.description == "v1.1.0")
        #expect(ledger.previous?.description == "v1.0.0")
    }

    @Test func `the seed follows a removed current client, and a removed previous client has no successor`() throws {
        var ledger = try Sample.inventory(["1.0.0", "1.1.0"], current: "1.1.0", previous: "1.0.0").ledger
        ledger.block(try Sample.block("1.0.0"))
        ledger.forget(try Sample.version("1.0.0"))
        #expect(ledger.previous == nil)
        #expect(ledger.current.description == "v1.1.0")
        ledger.forget(try Sample.version("1.1.0"))
        #expect(ledger.current == .embedded)
        #expect(ledger.entries.isEmpty)
        // A block stays without its client, since the feed may offer it again.
        #expect(ledger.block(on: try Sample.version("1.0.0")) != nil)
    }

    @Test func `keeps one entry and one block per version, in order`() throws {
        var ledger = Ledger()
        for version in ["1.10.0", "1.9.0", "1.10.0"] {
            ledger.record(try Sample.entry(version, minimumShell: ledger.entries.isEmpty ? "1.0.0" : "2.0.0"))
            ledger.block(try Sample.block(version, "\(ledger.blocks.count)"))
        }
        #expect(ledger.entries.map(\.version.description) == ["1.9.0", "1.10.0"])
        #expect(ledger.entry(try Sample.version("1.10.0"))?.shells?.minimum.description == "2.0.0")
        #expect(ledger.blocks.map(\.version.description) == ["1.9.0", "1.10.0"])
        #expect(ledger.block(on: try Sample.version("1.10.0"))?.reason == "2")
    }

    // MARK: Random ledgers

    private static func random(_ generator: inout SeededGenerator) throws -> Ledger {
        let releases: [SemanticVersion] = try (0..<Int.random(in: 0...6, using: &generator)).map { major in
            let tail = ["", "-rc.1", "-a.b.7"].randomElement(using: &generator) ?? ""
            return try Sample.version("\(major).\(Int.random(in: 0...999_999, using: &generator)).0\(tail)")
        }
        let pushes = try (0..<Int.random(in: 0...3, using: &generator)).map { number in
            try MeteorVersion(parsing: ["push", "v1.0.", "é", "e\u{301}"][number] + "\(number)")
        }
        let versions = releases.map(ClientVersion.archive) + pushes.map(ClientVersion.meteor)
        let entries = try versions.map { version in
            Ledger.Entry(
                identity: try identity(of: version, &generator),
                contentSha256: try .of([UInt8.random(in: 0...255, using: &generator)]),
                installedSize: Int.random(in: 0...JSONValue.maximumInteger, using: &generator),
                fileCount: Int.random(in: 0...20_000, using: &generator), installedAt: time(&generator))
        }
        let names = versions.map(ClientName.installed) + [ClientName.embedded]
        var ledger = Ledger()
        for entry in entries.shuffled(using: &generator) { ledger.record(entry) }
        if Bool.random(using: &generator) { ledger.appId = text(&generator) }
        ledger.current = names.randomElement(using: &generator) ?? .embedded
        ledger.lastKnownGood = names.randomElement(using: &generator) ?? .embedded
        ledger.previous = Bool.random(using: &generator) ? names.randomElement(using: &generator) : nil
        ledger.pending = Bool.random(using: &generator) ? names.randomElement(using: &generator) : nil
        ledger.shell = Bool.random(using: &generator) ? releases.randomElement(using: &generator) : nil
        ledger.offered = Bool.random(using: &generator) ? names.randomElement(using: &generator) : nil
        ledger.seedFacts = try pushes.first.map { try facts($0, &generator) }
        let orders = [["archive"], ["meteor"], ["archive", "meteor"], ["meteor", "archive"]]
        ledger.sources = SourceOrder(orders.randomElement(using: &generator) ?? []) ?? .standard
        ledger.seed = Bool.random(using: &generator) ? try .of(Array(text(&generator).utf8)) : nil
        ledger.blocks = versions.filter { _ in Bool.random(using: &generator) }.map { version in
            Ledger.Block(
                version: version, cause: Ledger.Block.Cause.allCases.randomElement(using: &generator) ?? .byHand,
                reason: text(&generator), count: Int.random(in: 0...9, using: &generator), since: time(&generator))
        }
        ledger.records = versions.filter { _ in Bool.random(using: &generator) }.map { version in
            StartRecord(
                version: version, goodSince: Bool.random(using: &generator) ? time(&generator) : nil,
                failures: (0..<Int.random(in: 0...2, using: &generator)).map { _ in
                    StartFailure(
                        StartFailure.Cause.allCases.randomElement(using: &generator) ?? .reported,
                        detail: text(&generator), at: time(&generator))
                })
        }
        if Bool.random(using: &generator) {
            ledger.launch = Launch(
                name: names.randomElement(using: &generator) ?? .embedded,
                tokenSha256: try .of(Array(text(&generator).utf8)), at: time(&generator),
                isTrial: Bool.random(using: &generator),
                verdict: Bool.random(using: &generator) ? Launch.Verdict.allCases.randomElement(using: &generator) : nil
            )
        }
        return ledger
    }

    @Test func `a blank screen is a word that programs of 0.9.0 read`() throws {
        let failure = StartFailure(.blankScreen, detail: "white", at: Timestamp(clamping: 1))
        let object = try #require(failure.json.objectValue)
        #expect(object["cause"] == .string("reported") && object["blankScreen"] == .bool(true))
        #expect(try StartFailure(MemberReader(.object(object), of: "failure")) == failure)
        var older = object
        older["blankScreen"] = nil
        #expect(try StartFailure(MemberReader(.object(older), of: "failure")).cause == .reported)
    }

    private static func identity(
        of version: ClientVersion, _ generator: inout SeededGenerator
    ) throws -> BundleIdentity {
        switch version {
        case .archive(let version):
            BundleIdentity(
                version: version,
                shells: try ShellRange(
                    minimum: Sample.version("0.0.1"),
                    maximum: Bool.random(using: &generator) ? Sample.version("9.0.0") : nil))
        case .meteor(let version):
            BundleIdentity(
                version: version, facts: try facts(version, &generator),
                seed: Bool.random(using: &generator) ? try Sample.seed(text(&generator)) : nil)
        }
    }

    private static func facts(_ version: MeteorVersion, _ generator: inout SeededGenerator) throws -> MeteorFacts {
        let texts = (0..<3).map { _ in Bool.random(using: &generator) ? text(&generator) : nil }
        return MeteorFacts(version: version, appId: texts[0], rootURL: texts[1], compatibility: texts[2])
    }

    private static func time(_ generator: inout SeededGenerator) -> Timestamp {
        Timestamp(clamping: Int.random(in: 0...Timestamp.latestSecond, using: &generator))
    }

    private static func text(_ generator: inout SeededGenerator) -> String {
        let pieces = ["a", "\"", "\\", "/", "\n", "\u{0}", "\u{7F}", "é", "e\u{301}", "日本", "😀", " ", "\u{2028}"]
        return (0..<Int.random(in: 0...12, using: &generator)).map { _ in
            pieces.randomElement(using: &generator) ?? ""
        }.joined()
    }
}
