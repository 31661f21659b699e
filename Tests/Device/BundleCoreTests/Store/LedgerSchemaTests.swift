import BundleDisk
import BundleSigning
import BundleTesting
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

/// Tests the ledger of both sources, and older and newer schemas.
struct LedgerSchemaTests {
    /// Two archives and two Meteor bundles, with a value in every member about sources.
    private static func ledger() throws -> Ledger {
        var ledger = Ledger()
        ledger.seed = try Sample.seed("1")
        ledger.seedFacts = Sample.facts(try MeteorVersion(parsing: "seed version"))
        for version in ["meteor-b", "1.1.0", "1.0.0"] { ledger.record(try Sample.entry(version)) }
        ledger.record(try Sample.entry("meteor-a", seed: "1"))
        for version in ["meteor-zz", "meteor-b", "1.0.0"] { ledger.block(try Sample.block(version)) }
        ledger.records = [
            StartRecord(version: try Sample.version("1.1.0"), goodSince: Timestamp(clamping: 7), failures: []),
            StartRecord(
                version: try Sample.version("meteor-a"), goodSince: nil,
                failures: [
                    StartFailure(
                        .reported, detail: "white", at: Timestamp(clamping: 8), retryAt: Timestamp(clamping: 908))
                ]),
        ]
        ledger.current = try Sample.name("meteor-a")
        ledger.previous = try Sample.name("1.1.0")
        ledger.lastKnownGood = try Sample.name("1.1.0")
        ledger.launch = Launch(
            name: try Sample.name("meteor-a"), tokenSha256: try .of([]), at: Timestamp(clamping: 9), isTrial: true,
            verdict: .faulty)
        ledger.offered = .embedded
        let failure = UpdateFailure(.httpStatus, subject: "x", "503")
        for version in ["meteor-c", "1.2.0", "1.2.0"] {
            ledger.miss(try Sample.version(version), after: failure, at: Timestamp(clamping: 5))
        }
        ledger.sources = try #require(SourceOrder(["archive", "meteor"]))
        return ledger
    }

    @Test func `reads a ledger of both sources as it was written`() throws {
        let folder = try TemporaryDirectory.ofTests()
        let ledger = try Self.ledger()
        try LedgerFile.write(ledger, to: folder.directory)
        let read = try #require(try LedgerFile.read(folder.directory))
        #expect(read == ledger)
        #expect(read.entries.map(\.version.description) == ["1.0.0", "1.1.0", "b", "a"])
        #expect(read.blocks.map(\.version.description) == ["1.0.0", "zz", "b"])
        #expect(read.entries.last?.identity.meteor?.rootURL == "http://localhost:3000/")
        #expect(read.entries.last?.identity.seed == (try Sample.seed("1")))
        #expect(read.entries.last?.shells == nil)
        #expect(read.seedFacts?.version.description == "seed version")
        #expect(read.meteorFacts == (try Sample.entry("meteor-a").identity.meteor))
        #expect(read.offered == .embedded)
        #expect(read.sources.description == "archive,meteor")
        #expect(read.wanted.map(\.attempts) == [2, 1])
    }

    @Test func `the Meteor bundle that was installed last is offered`() throws {
        var ledger = Ledger()
        ledger.record(try Sample.entry("meteor-a"))
        ledger.record(try Sample.entry("1.0.0"))
        #expect(ledger.offered == (try Sample.name("meteor-a")))
        ledger.record(try Sample.entry("meteor-b"))
        ledger.record(try Sample.entry("meteor-a"))
        #expect(ledger.offered == (try Sample.name("meteor-a")))
        #expect(ledger.entries.map(\.version.description) == ["1.0.0", "b", "a"])
        ledger.adopt(try Sample.entry("meteor-c"), isNewest: false)
        ledger.adopt(try Sample.entry("meteor-d"), isNewest: true)
        #expect(ledger.entries.map(\.version.description) == ["1.0.0", "c", "b", "a", "d"])
        #expect(ledger.offered == (try Sample.name("meteor-a")))
        ledger.forget(try Sample.version("meteor-a"))
        #expect(ledger.offered == nil)
        #expect(ledger.meteorFacts == nil)
    }

    @Test func `reports a ledger that a newer program wrote, and not its own`() throws {
        let newer = try #require(try Self.read { $0["schema"] = .integer(Ledger.schema + 1) })
        #expect(newer.newerNote?.contains("schema \(Ledger.schema + 1)") == true)
        #expect(try Self.read { _ in }?.newerNote == nil)
    }

    // MARK: Damage with a valid checksum

    private static func write(_ object: JSONObject, to folder: TemporaryDirectory) throws {
        var object = object
        object["checksum"] = nil
        let checksum = try SHA256Digest.of(JSONWriter.bytes(of: .object(object)))
        object["checksum"] = .string(checksum.hex)
        let bytes = JSONWriter.bytes(of: .object(object))
        try bytes.withUnsafeBytes { try folder.directory.createFile(StoreLayout.ledger, with: $0) }
    }

    private static func read(_ spoil: (inout JSONObject) -> Void) throws -> Ledger? {
        let folder = try TemporaryDirectory.ofTests()
        var object = try ledger().object
        spoil(&object)
        try write(object, to: folder)
        return try LedgerFile.read(folder.directory)
    }

    @Test(
        arguments: [
            ("sources", .null), ("sources", .array([])), ("sources", .string("archive")),
            ("sources", .array([.string("archive"), .string("archive")])), ("sources", .array([.string("usb")])),
            ("sources", .array([.integer(1)])), ("offered", .string("nobody")), ("offered", .string("meteor-../x")),
            ("seedFacts", .string("x")), ("seedFacts", .object(["version": .string("a/b")])),
            ("wanted", .array([.object(["version": .string("1.2.0")])])),
        ] as [(String, JSONValue)])
    func `refuses a damaged member about sources`(member: String, value: JSONValue) throws {
        let failure = try #require(throws: UpdateFailure.self) { try Self.read { $0[member] = value } }
        #expect(failure.code == .storeDamaged)
        #expect(failure.message.contains(member))
    }

    @Test(
        arguments: [
            ("source", .string("usb"), "is not a known source"), ("source", .null, "source is missing"),
            ("source", .string("archive"), "version"), ("version", .string("../x"), "version is refused"),
            ("meteor", .null, "meteor is missing"), ("meteor", .object([:]), "version is missing"),
            ("seed", .string("xyz"), "seed"),
        ] as [(String, JSONValue, String)])
    func `refuses a damaged entry of a Meteor bundle`(member: String, value: JSONValue, message: String) throws {
        let failure = try #require(throws: UpdateFailure.self) {
            try Self.read { object in
                var versions = object["versions"]?.arrayValue ?? []
                var entry = versions.last?.objectValue ?? [:]
                entry[member] = value
                versions[versions.count - 1] = .object(entry)
                object["versions"] = .array(versions)
            }
        }
        #expect(failure.code == .storeDamaged)
        #expect(failure.message.contains("versions[3]") && failure.message.contains(message), "\(failure.message)")
    }

    @Test func `reads the ledger that the other tests damage`() throws {
        #expect(try Self.read { _ in } == (try Self.ledger()))
    }

    // MARK: Older ledgers

    @Test(arguments: 1...3)
    func `names the programs that wrote a ledger of an older schema`(schema: Int) throws {
        let failure = try #require(throws: UpdateFailure.self) { try Self.read { $0["schema"] = .integer(schema) } }
        #expect(failure.code == .storeDamaged)
        #expect(
            failure.message.contains(
                "cannot be read: ledger.schema is \(schema), which only programs before 0.9.0 wrote. An install or a launch rebuilds it"
            ), "\(failure.message)")
    }

    @Test func `refuses a ledger without a feed`() throws {
        let failure = try #require(throws: UpdateFailure.self) { try Self.read { $0["feed"] = nil } }
        #expect(failure.code == .storeDamaged)
        #expect(failure.message.contains("ledger.feed"))
    }

    // MARK: Newer ledgers

    /// Reads a ledger that a newer program wrote as schema 5, with a valid checksum.
    private static func readNewer(_ change: (inout JSONObject) -> Void) throws -> Ledger? {
        let folder = try TemporaryDirectory.ofTests()
        try LedgerFile.write(Ledger(), to: folder.directory)
        var object = try ledger().object
        object["schema"] = .integer(5)
        object["colour"] = .string("blue")
        change(&object)
        object["checksum"] = .string(try SHA256Digest.of(JSONWriter.bytes(of: .object(object))).hex)
        try folder.directory.replaceFile(
            StoreLayout.ledger, with: JSONWriter.bytes(of: .object(object), layout: .pretty), mode: 0o600)
        return try LedgerFile.read(folder.directory)
    }

    @Test func `reads a newer ledger with its blocks`() throws {
        let ledger = try Self.ledger()
        let read = try #require(try Self.readNewer { _ in })
        #expect(read.blocks == ledger.blocks && read.entries == ledger.entries && read.launch == ledger.launch)
    }

    @Test(arguments: ["blocked", "versions", "starts", "feed"])
    func `refuses a newer ledger with an unreadable member instead of the previous ledger`(
        member: String
    ) {
        let refusal = #expect(throws: NewerLedger.self) {
            try Self.readNewer { $0[member] = .string("in another form") }
        }
        #expect(refusal?.failure.message.contains("A newer clientctl has written the ledger") == true)
        #expect(refusal.map { Launcher.isWithoutStore($0) } == true)
    }

    // MARK: Another seed

    /// The clients that remain after a change of the seed. `own` has all its files; `one` and `two` need the seed of
    /// that number.
    @Test(
        arguments: [
            (nil, "1", ["v1.0.0", "meteor-own", "meteor-one"]),
            ("1", "1", ["v1.0.0", "meteor-own", "meteor-one", "meteor-two"]),
            ("1", "2", ["v1.0.0", "meteor-two"]), ("3", "4", ["v1.0.0"]),
            ("1", nil, ["v1.0.0", "meteor-own", "meteor-one", "meteor-two"]),
        ] as [(String?, String?, [String])])
    func `another seed removes the Meteor bundles of the old one`(
        old: String?, new: String?, left: [String]
    ) throws {
        var ledger = Ledger()
        ledger.seed = try old.map(Sample.seed)
        for (version, seed) in [("1.0.0", nil), ("meteor-own", nil), ("meteor-one", "1"), ("meteor-two", "2")] {
            ledger.record(try Sample.entry(version, seed: seed))
        }
        ledger.adopt(seed: try new.map(Sample.seed), nil)
        #expect(ledger.entries.map { ClientName.installed($0.version).description } == left)
        #expect(ledger.seed == (try (new ?? old).map(Sample.seed)))
    }

    @Test func `another seed removes the starts and blocks of the old one`() throws {
        var ledger = try Self.ledger()
        ledger.block(
            Ledger.Block(
                version: try Sample.version("meteor-a"), cause: .failedStarts, reason: "x", count: 2,
                since: Timestamp(clamping: 9)))
        let facts = Sample.facts(try MeteorVersion(parsing: "seed 2"))
        ledger.adopt(seed: try Sample.seed("2"), facts)
        #expect(ledger.seedFacts == facts)
        #expect(ledger.offered == nil)
        #expect(ledger.records == [])
        #expect(ledger.launch == nil)
        #expect(ledger.current == .embedded)
        #expect(ledger.lastKnownGood == .embedded)
        // Blocks by hand stay.
        #expect(ledger.blocks.map(\.version.description) == ["1.0.0", "zz", "b"])
        #expect(ledger.sources.description == "archive,meteor")
        #expect(ledger.meteorFacts == facts)
    }
}
