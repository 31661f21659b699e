import BundleDisk
import BundleFetch
import BundleSigning
import BundleTesting
import BundleValues
import Glibc
@testable import BundleShell
import Testing

@testable import BundleFormats
@testable import BundleCore

struct DoctorRuleTests {
    private static let now = Timestamp(clamping: 1_800_000_000)
    private static let day = 86_400

    private static func at(_ offset: Int) -> Timestamp { Timestamp(clamping: now.secondsSinceEpoch + offset) }

    /// A store without findings.
    private static func store(_ change: (inout StoreLook) -> Void = { _ in }) -> StoreLook {
        var store = StoreLook(path: "/store", user: 1000)
        store.owner = 1000
        store.parents = [StoreLook.Parent(path: "/", owner: 0, mode: 0o755)]
        store.space = FreeSpace(bytes: 10 << 30, totalBytes: 20 << 30, blockBytes: 4096, files: 1_000_000)
        store.reserveBytes = 64 << 20
        store.links = StoreLook.Links()
        store.ledger = Ledger()
        change(&store)
        return store
    }

    private static func offer(_ verdict: Decision.Verdict) throws -> DoctorReading.OfferReading {
        DoctorReading.OfferReading(.archive(try SemanticVersion(parsing: "1.5.2")), verdict)
    }

    private static func reading(_ change: (inout DoctorReading) throws -> Void = { _ in }) rethrows -> DoctorReading {
        var reading = DoctorReading(clock: now, store: store(), confinement: .offered(version: 3))
        reading.deviceIdSource = .machine
        try change(&reading)
        return reading
    }

    private static func feed(
        _ url: String = "https://updates.example.com/channels/stable.json", end: FeedProbe.End? = nil,
        check: DoctorReading.CheckReading = .notDone, proxy: ProxyChoice? = nil
    ) throws -> DoctorReading.FeedReading {
        DoctorReading.FeedReading(
            url: try FetchURL(parsing: url), isChannel: true, proxy: proxy,
            end: end ?? .answered(status: 200, date: nil), check: check)
    }

    /// Returns the record of a feed whose document expires at `expires`.
    private static func memory(expires: Int) throws -> FeedMemory {
        var memory = FeedMemory()
        memory.clock = at(-Self.day)
        memory.follow(
            FeedMemory.ChannelMemory(
                name: "stable", sequence: 7, payloadSha256: try SHA256Digest.of([]), signers: [],
                issuedAt: at(-Self.day), expires: at(expires), recalled: [], minimumVersion: nil, leftOut: []))
        return memory
    }

    /// Returns the findings that are not ok, as `code severity`. Omits that a reading has no feed.
    private static func problems(_ reading: DoctorReading) -> [String] {
        DoctorRule.findings(reading).filter { $0.severity != .ok && $0.code != .source }
            .map { "\($0.code) \($0.severity)" }
    }

    private static func problems(_ change: (inout StoreLook) -> Void) -> [String] {
        problems(reading { change(&$0.store) })
    }

    @Test(arguments: [(1, false), (2, false), (3, true), (40, true)])
    func `warns of a version that does not arrive from the third attempt on`(attempts: Int, isReported: Bool) throws {
        let version = ClientVersion.archive(try SemanticVersion(parsing: "1.5.2"))
        var ledger = Ledger()
        for _ in 0..<attempts {
            ledger.miss(
                version, after: UpdateFailure(.httpStatus, subject: "", "The server answered 503."), at: Self.now)
        }
        let reading = Self.reading { $0.store.ledger = ledger }
        #expect(Self.problems(reading) == (isReported ? ["wanted warning"] : []))
        let finding = DoctorRule.findings(reading).first { $0.code == .wanted }
        #expect(finding?.message.contains("\(attempts) attempts failed): The server answered 503.") != !isReported)
    }

    @Test func `does not say that releases arrive if no source answered`() throws {
        func codes(_ check: DoctorReading.CheckReading) throws -> [FindingCode] {
            let url = try FetchURL(parsing: "https://updates.example.com/manifest.json")
            let reading = Self.reading {
                $0.store.ledger = Ledger()
                $0.feeds = [DoctorReading.FeedReading(url: url, isChannel: false, check: check)]
            }
            return DoctorRule.findings(reading).filter { $0.code == .wanted }.map(\.code)
        }
        let failure = UpdateFailure(.networkUnavailable, subject: "", "No answer.")
        #expect(try codes(.refused(failure)) == [])
        #expect(try codes(.late) == [])
        #expect(try codes(.verified(FeedMemory())) == [.wanted])
    }

    @Test func `warns of a version that a device refused at the first attempt`() throws {
        var ledger = Ledger()
        ledger.miss(
            .archive(try SemanticVersion(parsing: "1.5.2")),
            after: UpdateFailure(.digestMismatch, subject: "", "The archive is not the one that was signed."),
            at: Self.now)
        #expect(Self.problems(Self.reading { $0.store.ledger = ledger }) == ["wanted warning"])
    }

    @Test func `warns of a device without its own ID if it follows a channel`() throws {
        for source in [FeedMemory.DeviceIdSource.drawn, nil] {
            let reading = try Self.reading {
                $0.deviceIdSource = source
                $0.feeds = [try Self.feed()]
            }
            #expect(Self.problems(reading).contains("deviceId warning"))
            #expect(
                DoctorRule.findings(reading).first { $0.code == .deviceId }?.advice?.contains("--device-id") == true)
        }
        #expect(!Self.problems(Self.reading { $0.deviceIdSource = nil }).contains("deviceId warning"))
    }

    @Test func `reports every subject of a healthy device as ok`() throws {
        let memory = try Self.memory(expires: 30 * Self.day)
        let reading = try Self.reading {
            $0.trust = .root(version: 2, expires: Self.at(300 * Self.day))
            let proxy = ProxyChoice(address: "http://proxy:3128", source: "https_proxy")
            $0.feeds = [
                try Self.feed(check: .verified(memory, try Self.offer(.install))),
                try Self.feed(check: .verified(memory), proxy: proxy),
            ]
            ($0.inventory, $0.hasSeed) = (Inventory(path: "/store", ledger: Ledger(), bundles: []), true)
            $0.session = .authenticated
            $0.origins = GrantedOrigins()
            $0.port = DoctorReading.Port(number: 12_000, isFixed: false, holder: .free)
        }
        let findings = DoctorRule.findings(reading)
        #expect(findings.filter { $0.severity != .ok } == [])
        #expect(DoctorRule.worst(findings) == .ok)
        // A page that is not overdue and a source that is named are not reported.
        #expect(Set(findings.map(\.code)) == Set(FindingCode.allCases).subtracting([.screen, .source]))
        #expect(findings.allSatisfy { ($0.severity == .ok) == ($0.advice == nil) && !$0.subject.isEmpty })
    }

    @Test func `warns of declared origins that the device does not grant`() {
        let page = Array("<meta name=clientctl:connect content='https://a.example https://b.example'>".utf8)
        let declared = ReleaseOrigins(page: page)
        let granted = Self.reading { $0.origins = GrantedOrigins(declared, within: .all) }
        #expect(!Self.problems(granted).contains("origins warning"))
        #expect(DoctorRule.origins(granted)?.message.contains("all 2 origins") == true)
        let refused = Self.reading { $0.origins = GrantedOrigins(declared, within: .none) }
        #expect(Self.problems(refused).contains("origins warning"))
        #expect(DoctorRule.origins(refused)?.message.contains("https://a.example https://b.example") == true)
        let undeclared = Self.reading { _ in }
        #expect(DoctorRule.origins(undeclared) == nil)
    }

    @Test func `warns of a device without a feed`() throws {
        let found = DoctorRule.findings(Self.reading { _ in }).filter { $0.code == .source }
        #expect(found.map(\.severity) == [.warning])
        #expect(found.first?.advice?.contains("--config") == true)
        let named = try Self.reading { $0.feeds = [try Self.feed()] }
        #expect(!DoctorRule.findings(named).contains { $0.code == .source })
    }

    // MARK: Clients, sessions and offers

    @Test func `warns of a client before its second trial`() throws {
        let entry = Ledger.Entry(
            identity: BundleIdentity(
                version: try SemanticVersion(parsing: "1.1.0"),
                shells: try ShellRange(minimum: SemanticVersion(parsing: "1.0.0"), maximum: nil)),
            contentSha256: try .of([]), installedSize: 12, fileCount: 2, installedAt: Timestamp(clamping: 1))
        var ledger = Ledger()
        ledger.record(entry)
        let failure = StartFailure(.reported, detail: "white", at: Timestamp(clamping: 8))
        ledger.records = [StartRecord(version: entry.version, goodSince: nil, failures: [failure])]
        let inventory = Inventory(
            path: "/store", ledger: ledger, bundles: [InstalledBundle(entry: entry, path: "/store/clients/v1.1.0")])
        let reading = Self.reading { ($0.inventory, $0.hasSeed) = (inventory, true) }
        #expect(Self.problems(reading) == ["clients warning"])
        let finding = DoctorRule.findings(reading).first { $0.code == .clients }
        #expect(finding?.message.hasPrefix("v1.1.0 failed once, and is tried once more") == true)
    }

    @Test(arguments: [
        (try? ClientVersion(parsing: "1.5.2", of: .archive), "Publish another release", "is verified"),
        (try? ClientVersion(parsing: "verC", of: .meteor), "Deploy another version", "hot code pushes are not signed"),
    ])
    func `advises on a blocked version by its source`(version: ClientVersion?, advice: String, document: String) throws
    {
        let version = try #require(version)
        let block = Ledger.Block(
            version: version, cause: .failedStarts, reason: "white", count: 2, since: Timestamp(clamping: 8))
        let offer = DoctorReading.OfferReading(version, .blocked(block))
        let reading = try Self.reading { $0.feeds = [try Self.feed(check: .verified(FeedMemory(), offer))] }
        let findings = DoctorRule.findings(reading)
        #expect(
            findings.first { $0.code == .offer }?.advice
                == "\(advice), or run `clientctl unblock --version \(version) --store \(reading.store.path)`.")
        #expect(findings.first { $0.code == .document }?.message.contains(document) == true)
        let failure = Decision.Verdict.blocked(block).failure(of: version)
        #expect(failure?.message.hasSuffix(": white. \(block.advice)") == true)
    }

    @Test func `fails without a client to show`() {
        var reading = Self.reading { $0.inventory = Inventory(path: "/store", ledger: Ledger(), bundles: []) }
        #expect(Self.problems(reading) == ["clients failure"])
        reading.hasSeed = true
        #expect(Self.problems(reading) == [])
    }

    @Test(
        arguments: [
            (.notRequired, []), (.authenticated, []), (.locked(.byOperator), ["session warning"]),
            (.locked(.forMaintenance), ["session warning"]),
            (.unauthenticated(.ended(.signedOut)), ["session warning"]),
            (.unauthenticated(.ended(.expired)), ["session warning"]),
            (.unauthenticated(.ended(.rejected)), ["session warning"]),
            (.unauthenticated(.unreadable), ["session failure"]),
        ] as [(SessionStatus, [String])])
    func `reports which users may see clients`(session: SessionStatus, problems: [String]) {
        #expect(Self.problems(Self.reading { $0.session = session }) == problems)
    }

    @Test(arguments: [(ScreenNote.NoteCause.started, 60), (.replaced, 10)])
    func `warns of a browser that shows no page or an earlier one`(
        cause: ScreenNote.NoteCause, patience: Int
    ) {
        #expect(Self.problems(Self.reading { $0.screen = ScreenNote(cause, since: Self.at(1 - patience)) }) == [])
        let reading = Self.reading { $0.screen = ScreenNote(cause, since: Self.at(-patience)) }
        #expect(Self.problems(reading) == ["screen warning"])
    }

    @Test func `explains why an offer is not for this device`() throws {
        let shell = try SemanticVersion(parsing: "9.0.0")
        let block = Ledger.Block(
            version: .archive(try SemanticVersion(parsing: "1.5.2")), cause: .byHand, reason: "left by hand", count: 1,
            since: Self.now)
        let offers: [(Decision.Verdict, String?)] = [
            (.install, nil), (.upToDate(newest: .embedded), nil),
            (.notInRollout(newest: .embedded, detail: "its rollout excludes it"), "its rollout excludes it"),
            (.incompatible(.shellTooOld(minimum: shell)), "9.0.0"), (.blocked(block), "left by hand"),
            (.withdrawn(.recalled(reason: "white screen")), "white screen"),
        ]
        for (verdict, part) in offers {
            let reading = try Self.reading {
                $0.shell = try SemanticVersion(parsing: "1.0.0")
                let memory = try Self.memory(expires: 30 * Self.day)
                $0.feeds = [try Self.feed(check: .verified(memory, try Self.offer(verdict)))]
            }
            // A device that a rollout excludes has no warning.
            let isWell = if case .notInRollout = verdict { true } else { part == nil }
            #expect(Self.problems(reading) == (isWell ? [] : ["offer warning"]))
            let said = DoctorRule.findings(reading).first { $0.code == .offer }?.message ?? ""
            #expect(said.contains(part ?? "is"), "\(said)")
        }
        let unknown = try Self.reading {
            let memory = try Self.memory(expires: 30 * Self.day)
            $0.feeds = [
                try Self.feed(
                    check: .verified(memory, try Self.offer(.incompatible(.shellTooOld(minimum: shell)))))
            ]
        }
        #expect(Self.problems(unknown) == [], "an unknown shell is not too old")
    }

    // MARK: Clock

    @Test(arguments: [
        (0, "ok"), (119, "ok"), (-119, "ok"), (600, "warning"), (-600, "warning"), (2 * 86_400, "failure"),
        (365 * 86_400, "failure"),
    ]) func `compares the clock with that of the server`(ahead: Int, severity: String) throws {
        let reading = try Self.reading {
            $0.feeds = [try Self.feed(end: .answered(status: 404, date: Self.header(ahead)))]
        }
        let found = DoctorRule.clock(reading)
        #expect(found.severity.rawValue == severity, "\(found)")
        if severity != "ok" { #expect(found.message.contains(ahead > 0 ? "behind" : "ahead of"), "\(found)") }
    }

    private static func header(_ offset: Int) -> String {
        var (time, parts, text) = (time_t(at(offset).secondsSinceEpoch), tm(), [CChar](repeating: 0, count: 64))
        gmtime_r(&time, &parts)
        strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    @Test func `fails for a clock before the latest signed time, whatever a server returns`() throws {
        var memory = FeedMemory()
        memory.clock = Self.at(Self.day)
        for feeds in [[], [try Self.feed(end: .answered(status: 200, date: Self.header(0)), check: .verified(memory))]]
        {
            let reading = Self.reading {
                $0.feeds = feeds
                $0.store.ledger?.feed = memory
            }
            #expect(DoctorRule.clock(reading).severity == .failure)
        }
        memory.clock = Self.at(60)
        let close = Self.reading { $0.store.ledger?.feed = memory }
        #expect(DoctorRule.clock(close).severity == .ok, "a publisher's clock may be a little ahead")
        let ancient = DoctorReading(
            clock: Timestamp(clamping: 0), store: Self.store(), confinement: .offered(version: 3))
        #expect(DoctorRule.clock(ancient).severity == .failure, "this program is younger")
    }

    @Test(arguments: [(4 * 365, "ok"), (10 * 365, "warning")])
    func `warns of a clock that is years after the latest signed time if no server returns its time`(
        days: Int, severity: String
    ) {
        var memory = FeedMemory()
        memory.clock = Self.now
        let reading = Self.reading {
            $0.clock = Self.at(days * Self.day)
            $0.store.ledger?.feed = memory
        }
        #expect(DoctorRule.clock(reading).severity.rawValue == severity)
    }

    @Test func `warns of a store that does not exist`() {
        let finding = DoctorRule.folder(Self.store { $0.folder = .missing(refusal: nil) })
        #expect(finding.severity == .warning)
        #expect(finding.advice?.contains("CLIENTCTL_STORE") == true)
    }

    @Test func `warns of a server whose time is before the latest signed time`() throws {
        let memory = try Self.memory(expires: 30 * Self.day)
        let reading = try Self.reading {
            $0.feeds = [
                try Self.feed(end: .answered(status: 200, date: Self.header(-400 * Self.day)), check: .verified(memory))
            ]
        }
        let found = DoctorRule.clock(reading)
        #expect(found.severity == .warning && found.advice?.contains("server") == true, "\(found)")
    }

    @Test(arguments: [
        "", "now", "Sun, 06 Nov 1994 08:49:37 CET", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 31 Feb 2026 08:49:37 GMT",
    ])
    func `rejects another format of a date`(text: String) { #expect(ServerDate.parse(text) == nil) }

    @Test func `parses a date`() throws {
        #expect(ServerDate.parse("Sun, 06 Nov 1994 08:49:37 GMT")?.description == "1994-11-06T08:49:37Z")
    }

    // MARK: Store

    @Test func `reports missing, closed, foreign and read-only folders of a store`() {
        let denied = DiskError("write to", at: "/store", code: EACCES)
        #expect(Self.problems { $0.folder = .missing(refusal: nil) } == ["storeFolder warning"])
        for folder in [
            StoreLook.Folder.missing(refusal: denied), .closed(denied), .foreign("It has crm.txt, and no ledger."),
        ] { #expect(Self.problems { $0.folder = folder }.contains("storeFolder failure"), "\(folder)") }
        #expect(Self.problems { $0.owner = 33 } == ["storeFolder failure"])
        #expect(Self.problems { $0.refusals = [denied] } == ["storeFolder failure"])
        #expect(Self.problems { $0.openFolders = ["/store/clients"] } == ["storeFolder failure"])
        let store = Self.store { $0.refusals = [DiskError("write to", at: "/store", code: EROFS)] }
        #expect(DoctorRule.folder(store).message.contains("read-only"))
    }

    @Test(
        arguments: [
            (0, 0o755, true), (0, 0o1777, true), (0, 0o777, false), (1000, 0o700, true), (33, 0o755, false),
        ] as [(UInt32, UInt32, Bool)])
    func `reports folders above the store that other users can replace`(owner: UInt32, mode: UInt32, isGood: Bool) {
        let problems = Self.problems { $0.parents.append(StoreLook.Parent(path: "/var", owner: owner, mode: mode)) }
        #expect(problems == (isGood ? [] : ["storeParents warning"]))
    }

    @Test func `reports little space and few inodes`() throws {
        func problems(bytes: Int, files: Int?) throws -> [String] {
            let version = try SemanticVersion(parsing: "1.0.0")
            let entry = Ledger.Entry(
                identity: BundleIdentity(
                    version: version, shells: try ShellRange(minimum: version, maximum: nil)),
                contentSha256: try SHA256Digest.of([]),
                installedSize: 100 << 20, fileCount: 200, installedAt: Self.now)
            return Self.problems {
                $0.ledger?.entries = [entry]
                $0.space = FreeSpace(bytes: bytes, totalBytes: 20 << 30, blockBytes: 4096, files: files)
            }
        }
        #expect(try problems(bytes: 1 << 30, files: nil) == [])
        #expect(try problems(bytes: 200 << 20, files: 10_000) == ["diskSpace warning"])
        #expect(try problems(bytes: 60 << 20, files: 10_000) == ["diskSpace failure"])
        #expect(try problems(bytes: 1 << 30, files: 500) == ["inodes warning"])
        #expect(try problems(bytes: 1 << 30, files: 200) == ["inodes failure"])
        #expect(Self.problems { $0.space = nil } == [])
    }

    @Test func `reports missing hard links and renames`() {
        let refused = DiskError("link", at: "one", code: EPERM)
        #expect(Self.problems { $0.links = nil } == [])
        #expect(Self.problems { $0.links?.copied = "clients" } == ["links warning"])
        #expect(Self.problems { $0.links?.linking = refused } == ["links warning"])
        #expect(
            Self.problems { $0.links?.exclusive = DiskError("rename", at: "one", code: EINVAL) } == ["rename warning"])
        #expect(Self.problems { $0.links?.apart = "clients" } == ["rename failure"])
    }

    @Test func `reports a damaged ledger and the remains of runs`() throws {
        #expect(Self.problems { ($0.ledger, $0.damage) = (nil, "It cannot be read.") } == ["ledger failure"])
        #expect(Self.problems { $0.damage = "It cannot be read." } == ["ledger warning"])
        #expect(Self.problems { $0.lost = [.embedded] } == ["ledger failure"])
        #expect(Self.problems { $0.leftovers = 1 } == ["leftovers warning"])
        #expect(Self.problems { $0.strays = ["clients/v9.0.0"] } == ["leftovers warning"])
        #expect(Self.problems { ($0.leftovers, $0.worker) = (1, 42) } == [])
    }

    // MARK: Trust and documents

    @Test func `reports keys and trust roots`() throws {
        func problems(_ trust: DoctorReading.TrustReading, _ check: DoctorReading.CheckReading = .notDone) throws
            -> [String]
        {
            try Self.problems(
                Self.reading {
                    $0.trust = trust
                    $0.feeds = [try Self.feed(check: check)]
                })
        }
        #expect(try problems(.keys(1)) == [])
        #expect(try problems(.unreadable("It is no key.")) == ["trust failure"])
        let refused = UpdateFailure(.configInvalid, subject: "x", "It is no key.")
        #expect(try problems(.unreadable("It is no key."), .refused(refused)) == ["trust failure"], "reported once")
        #expect(try problems(.root(version: 1, expires: Self.at(15 * Self.day))) == [])
        #expect(try problems(.root(version: 1, expires: Self.at(13 * Self.day))) == ["trust warning"])
        #expect(try problems(.root(version: 1, expires: Self.at(0))) == ["trust failure"])
        let expired = UpdateFailure(.expired, subject: "trust root", "The trust root 2 expired.")
        #expect(
            try problems(.root(version: 1, expires: Self.at(99 * Self.day)), .refused(expired)) == ["trust failure"])
    }

    @Test(arguments: [
        (FailureCode.expired, "document"), (.signatureInvalid, "document"), (.rollbackAttempt, "document"),
        (.manifestMalformed, "document"), (.appMismatch, "document"), (.httpStatus, "http"),
        (.networkUnavailable, "http"),
    ])
    func `assigns a rejection to the finding that it belongs to`(code: FailureCode, finding: String) throws {
        let failure = UpdateFailure(code, subject: "channel stable", "It was refused.")
        let reading = try Self.reading { $0.feeds = [try Self.feed(check: .refused(failure))] }
        #expect(Self.problems(reading) == ["\(finding) failure"])
        let ofStore = UpdateFailure(code, subject: "/store/ledger.json", "It cannot be read.")
        let other = try Self.reading { $0.feeds = [try Self.feed(check: .refused(ofStore))] }
        #expect(Self.problems(other) == (finding == "http" ? ["http failure"] : []), "the store has its own findings")
    }

    @Test func `warns of a document that expires soon, and fails for an unreadable one on a disk`() throws {
        for (expires, expected) in [(2 * Self.day, ["document warning"]), (4 * Self.day, [])] {
            let memory = try Self.memory(expires: expires)
            let reading = try Self.reading { $0.feeds = [try Self.feed(check: .verified(memory))] }
            #expect(Self.problems(reading) == expected)
        }
        let missing = UpdateFailure(.configInvalid, subject: "/feed", "It does not exist.")
        for check in [DoctorReading.CheckReading.refused(missing), .late] {
            let reading = try Self.reading {
                $0.feeds = [try Self.feed("file:///feed", check: check)]
                $0.feeds[0].end = nil
            }
            #expect(Self.problems(reading) == ["document failure"])
        }
    }

    // MARK: Connection

    private static let unable = FeedProbe.End.unable(.unsupportedURL("a", reason: "no"))

    @Test(arguments: [
        (FeedProbe.End.unresolved(reason: "no"), ["dns failure"]), (.unconnected(reason: "no"), ["tcp failure"]),
        (.untrusted(reason: "no"), ["tls failure"]), (.silent(reason: "no"), ["http failure"]),
        (unable, ["http failure"]), (.answered(status: 500, date: nil), ["http failure"]),
        (.answered(status: 401, date: nil), ["http warning"]), (.answered(status: 302, date: nil), []),
    ])
    func `reports the stage that a test request reached`(end: FeedProbe.End, problems: [String]) throws {
        let direct = try Self.reading { $0.feeds = [try Self.feed(end: end)] }
        #expect(Self.problems(direct) == problems)
        let stages = DoctorRule.findings(direct).map(\.code).filter { [.dns, .tcp, .tls, .http].contains($0) }
        #expect(
            stages == Array([FindingCode.dns, .tcp, .tls, .http].prefix(stages.count))
                || end == Self.unable)
        let proxy = ProxyChoice(address: "http://proxy:3128", source: "--proxy")
        let through = try Self.reading { $0.feeds = [try Self.feed(end: end, proxy: proxy)] }
        #expect(
            Self.problems(through)
                == (["dns failure", "tcp failure"].contains(problems.first) ? ["proxy failure"] : problems))
    }

    @Test func `reports a proxy that rejects and a server that is too slow`() throws {
        let proxy = ProxyChoice(address: "http://proxy:3128", source: "--proxy")
        let refused = try Self.reading { $0.feeds = [try Self.feed(end: .proxyRefused(reason: "403"), proxy: proxy)] }
        #expect(Self.problems(refused) == ["proxy failure"])
        let late = try Self.reading { $0.feeds = [try Self.feed(check: .late)] }
        #expect(Self.problems(late) == ["http failure"])
        let token = try Self.reading {
            $0.feeds = [
                try Self.feed(
                    end: .answered(status: 401, date: nil), check: .verified(try Self.memory(expires: 9 * Self.day)))
            ]
        }
        #expect(Self.problems(token) == [], "a request with a token succeeds")
    }

    @Test(
        arguments: [
            ("https://a.example.com/x", nil, ["https_proxy": "http://u:p@p:1"], "http://p:1", "https_proxy"),
            ("https://a.example.com/x", nil, ["HTTPS_PROXY": "p:1"], "p:1", "HTTPS_PROXY"),
            ("http://a.example.com/x", nil, ["http_proxy": "p:1"], "p:1", "http_proxy"),
            ("http://a.example.com/x", nil, ["HTTP_PROXY": "p:1"], nil, nil),
            ("http://a.example.com/x", nil, ["all_proxy": "socks5h://p:1"], "socks5h://p:1", "all_proxy"),
            ("https://a.example.com/x", "http://q:2", ["https_proxy": "p:1"], "http://q:2", "--proxy"),
            ("https://a.example.com/x", "", ["https_proxy": "p:1"], nil, nil),
            ("https://a.example.com/x", nil, ["https_proxy": "p:1", "no_proxy": "b.com, .example.com"], nil, nil),
            ("https://aexample.com/x", nil, ["https_proxy": "p:1", "no_proxy": "example.com"], "p:1", "https_proxy"),
            ("https://a.example.com/x", nil, ["https_proxy": "p:1", "NO_PROXY": "*"], nil, nil),
            ("https://127.0.0.1/x", nil, ["https_proxy": "p:1"], nil, nil),
            ("file:///x", "http://q:2", [:], nil, nil), ("https://a.example.com/x", nil, [:], nil, nil),
        ] as [(String, String?, [String: String], String?, String?)])
    func `selects the proxy that libcurl uses, and hides its password`(
        url: String, given: String?, environment: [String: String], address: String?, source: String?
    ) throws {
        let found = ProxyChoice.of(try FetchURL(parsing: url), given: given, environment: environment)
        #expect(found?.address == address && found?.source == source)
    }

    // MARK: Machine

    @Test func `judges the program that listens on the port of serve`() {
        func problems(_ holder: DoctorReading.Port.Holder, isFixed: Bool = false) -> [String] {
            Self.problems(Self.reading { $0.port = DoctorReading.Port(number: 80, isFixed: isFixed, holder: holder) })
        }
        #expect(problems(.free) == [] && problems(.clientctl, isFixed: true) == [])
        for holder in [DoctorReading.Port.Holder.other(nil), .other("nginx (process 7)"), .serve(store: "/s")] {
            #expect(problems(holder) == ["port warning"])
            #expect(problems(holder, isFixed: true) == ["port failure"])
        }
        #expect(problems(.refused(DiskError("bind", at: "port 80", code: EACCES))) == ["port failure"])
    }

    @Test func `warns of a kernel without Landlock`() {
        let reading = DoctorReading(clock: Self.now, store: Self.store(), confinement: .missing(reason: "too old"))
        #expect(Self.problems(reading) == ["landlock warning"])
        #expect(DoctorRule.worst(DoctorRule.findings(reading)) == .warning)
    }

    // MARK: Guide

    @Test func `documents every code in the guide`() throws {
        let page = String(decoding: try contents(ofFile: Checkout.root + "/Guide/reference/doctor.md"), as: UTF8.self)
        let headings = page.split(separator: "\n").filter { $0.hasPrefix("## ") }.map { String($0.dropFirst(3)) }
        #expect(headings.sorted() == FindingCode.allCases.map(\.rawValue).sorted())
        let schema = try contents(ofFile: Checkout.root + "/Guide/reference/json/doctor.schema.json")
        let text = String(decoding: schema, as: UTF8.self)
        for code in FindingCode.allCases { #expect(text.contains("\"\(code.rawValue)\""), "\(code)") }
    }

    @Test func `documents the remedy of every code in the guide`() throws {
        func plain(_ text: some StringProtocol) -> String { String(text).replacing("`", with: "") }
        let doctor = String(decoding: try contents(ofFile: Checkout.root + "/Guide/reference/doctor.md"), as: UTF8.self)
        let sections = doctor.split(separator: "\n## ")
        for code in FindingCode.allCases {
            let section = try #require(sections.first { $0.hasPrefix("\(code.rawValue)\n") })
            let remedy = plain(code.remedy)
            #expect(plain(section).contains(remedy) || plain(sections[0]).contains(remedy), "\(code): \(remedy)")
        }
        for code in FailureCode.allCases {
            let path = Checkout.root + "/Guide/reference/errors/\(code.rawValue).md"
            let page = String(decoding: try contents(ofFile: path), as: UTF8.self)
            let advice = page.split(separator: "## What to do").last?.split(separator: "\n## ").first ?? ""
            #expect(advice.contains(code.remedy), "\(code): \(code.remedy)")
        }
    }
}
