import BundleFormats
import ArchiveSource
import BundleDisk
import BundleSigning
import BundleTesting
import BundleValues
import Synchronization
import Testing

@testable import BundleFleet

@Suite("RosterStore") final class RosterStoreTests {
    private let folder: TemporaryFolder
    private let time = Mutex(Timestamp(clamping: 1_800_000_000))

    init() throws { folder = try TemporaryFolder() }

    private func store() throws -> RosterStore {
        let time = time.withLock(\.self)
        return try RosterStore(folder.file("roster.db"), environment: Environment(now: { time }))
    }

    private func rows(_ filter: RosterFilter = RosterFilter(), after seconds: Int = 0) throws -> [RosterRow] {
        let now = Timestamp(clamping: time.withLock(\.secondsSinceEpoch) + seconds)
        return try RosterFile(folder.file("roster.db"), isReadOnly: true).rows(filter, at: now).rows
    }

    private static func post(
        _ number: Int = 1, name: String = "Lobby", runs: String? = "1.5.0"
    ) -> RosterPost {
        let digits = String(number, radix: 16)
        return RosterPost(
            device: String(repeating: "0", count: 16 - digits.count) + digits, name: name, state: .good,
            program: "0.9.0", interval: 900, runs: runs)
    }

    private func send(
        _ post: RosterPost, _ key: borrowing DeviceKey, to store: RosterStore, from address: String = "192.0.2.1"
    ) async throws -> RosterVerdict {
        let signature = try DeviceSignature(signing: post.bytes, with: key)
        return await store.take(post.bytes, from: RosterMessenger(key: signature.field, address: address))
    }

    // MARK: Messages

    @Test func `stores every member of a message before it responds`() async throws {
        let post = RosterPost(
            device: "3f9a0b1c2d3e4f50", name: "Lobby 3", state: .failed, program: "0.9.0", interval: 900,
            appId: "com.example.kiosk", runs: "1.5.1", next: "1.5.2", waiting: .window, screen: .client,
            shell: try SemanticVersion(parsing: "1.2.0"), channel: "stable", sequence: 18,
            checked: Timestamp(clamping: 1_799_999_000), code: "networkUnavailable", blocked: ["1.4.0", "1.5.0"],
            findings: ["clock", "diskSpace"], groups: ["eu", "qa"], tags: ["site=Lisbon", "door=2"],
            failure: "1.5.1 reported: the page said: no printer")
        let key = try DeviceKey()
        #expect(try await send(post, key, to: store()) == .taken)
        let row = try #require(try rows().first)
        #expect(row.post == post)
        #expect(row.target == "device:3f9a0b1c2d3e4f50")
        #expect(try RosterRow(.object(row.json(at: row.seen))) == row)
    }

    @Test func `selects the devices of a group, and a host of 0.9.0 gets no member that it does not know`() async throws
    {
        let store = try store()
        let key = try DeviceKey()
        var post = Self.post(1)
        (post.groups, post.failure) = (["qa"], "1.5.1 reported: the page said: no printer")
        #expect(try await send(post, key, to: store) == .taken)
        #expect(try await send(Self.post(2), key, to: store) == .taken)
        let filter = try #require(RosterFilter(query: "group=qa"))
        #expect(filter.query == "group=qa")
        #expect(try rows(filter).map(\.post.device) == [post.device])
        #expect(try await store.page(query: "group=qa")?.html.contains("1 device.") == true)
        #expect(try await store.page(of: post.device)?.html.contains("no printer") == true)
        #expect(post.forFirstHosts == Self.post(1) && Self.post(1).forFirstHosts == nil)
        let members = try JSONScanner.parse(Self.post(1).bytes, maximumBytes: 8192).objectValue?.members.map(\.name)
        #expect(members == Array(RosterPost.members.dropLast(3)))
    }

    @Test(arguments: [
        "site", "=Lisbon", "site=", "site=a b", "site=a\u{7}", "s i=x", "site=" + String(repeating: "x", count: 200),
    ])
    func `refuses a tag that is not a name and a value`(tag: String) throws {
        #expect(!RosterPost.isTag(tag) && RosterPost.isTag("site=Lisboa-Oriente_2.é"))
        var post = Self.post()
        post.tags = [tag]
        #expect(throws: MemberReader.Refusal.self) { try RosterPost(parsing: post.bytes) }
    }

    // MARK: Pictures

    private static func picture(_ taken: Int, _ kind: PicturePost.Kind = .last, byte: UInt8 = 1) throws -> PicturePost {
        PicturePost(
            device: post().device, kind: kind, taken: Timestamp(clamping: taken),
            picture: try #require(ScreenPicture([0xFF, 0xD8, 0xFF, byte, 0xFF, 0xD9])))
    }

    private func send(
        _ picture: PicturePost, _ key: borrowing DeviceKey, to store: RosterStore
    ) async throws -> RosterVerdict {
        let signature = try DeviceSignature(signing: picture.bytes, with: key)
        return await store.takePicture(
            picture.bytes, from: RosterMessenger(key: signature.field, address: "192.0.2.1"))
    }

    private func keepingPictures() throws -> RosterStore {
        let time = time.withLock(\.self)
        return try RosterStore(folder.file("roster.db"), keepsPictures: true, environment: Environment(now: { time }))
    }

    @Test func `keeps the last picture of each kind until the device is forgotten`() async throws {
        let store = try keepingPictures()
        let key = try DeviceKey()
        let device = Self.post().device
        guard case .malformed = try await send(Self.picture(1), key, to: store) else {
            Issue.record("the host accepted a picture of a device without a state")
            return
        }
        #expect(try await send(Self.post(), key, to: store) == .taken)
        #expect(try rows().first?.pictured == nil)
        #expect(try await store.page(of: device)?.html.contains("<img") == false)
        #expect(try await send(Self.picture(10), key, to: store) == .taken)
        #expect(try await send(Self.picture(11, byte: 2), key, to: store) == .taken)
        #expect(try await send(Self.picture(10, .failed, byte: 3), key, to: store) == .taken)
        #expect(try await store.picture(of: device, .last)?.bytes[3] == 2)
        #expect(try await store.picture(of: device, .failed)?.bytes[3] == 3)
        let row = try #require(try rows().first)
        #expect(row.pictured == row.seen && row.failurePictured == row.seen)
        #expect(try RosterRow(.object(row.json(at: row.seen))) == row)
        let page = try #require(try await store.page(of: device))
        #expect(page.html.contains("<img src=\"/roster/\(device)/failed-picture\""))
        #expect(page.policy.contains("img-src 'self'") && !page.policy.contains("script"))
        #expect(try await store.forget(Array(#"{"forget":"\#(device)"}"#.utf8)) == true)
        #expect(try await store.picture(of: device, .last) == nil)
    }

    @Test func `refuses a picture of another key, an old one, and one without a valid signature`() async throws {
        let store = try keepingPictures()
        let own = try DeviceKey()
        let other = try DeviceKey()
        #expect(try await send(Self.post(), own, to: store) == .taken)
        #expect(try await send(Self.picture(1_799_999_900), own, to: store) == .taken)
        #expect(try await send(Self.picture(1_799_999_990, byte: 9), other, to: store) == .conflict)
        let changed = try Self.picture(1_799_999_995, byte: 9).bytes
        let signature = try DeviceSignature(signing: Self.picture(1_799_999_995).bytes, with: own)
        let unsigned = await store.takePicture(
            changed, from: RosterMessenger(key: signature.field, address: "192.0.2.1"))
        let repeated = try await send(Self.picture(1_799_999_900, byte: 9), own, to: store)
        for verdict in [unsigned, repeated] {
            guard case .malformed = verdict else {
                Issue.record("the host accepted a wrong picture: \(verdict)")
                continue
            }
        }
        #expect(try await store.picture(of: Self.post().device, .last)?.bytes[3] == 1)
        // A device whose clock was ahead may return to the right time.
        #expect(try await send(Self.picture(1_900_000_000), own, to: store) == .taken)
        #expect(try await send(Self.picture(1_800_000_400), own, to: store) == .taken)
    }

    @Test func `a host that keeps no pictures refuses them, and removes those of an earlier one`() async throws {
        let key = try DeviceKey()
        let before = try keepingPictures()
        #expect(try await send(Self.post(), key, to: before) == .taken)
        #expect(try await send(Self.picture(10), key, to: before) == .taken)
        let store = try store()
        #expect(try await store.picture(of: Self.post().device, .last) == nil)
        #expect(try await send(Self.picture(11), key, to: store) == .unwanted)
        #expect(try rows().first?.pictured == nil)
    }

    @Test func `commits many messages at once`() async throws {
        let store = try store()
        let key = try DeviceKey()
        var bodies: [(bytes: [UInt8], field: String)] = []
        for number in 0..<300 {
            let bytes = Self.post(number).bytes
            bodies.append((bytes, try DeviceSignature(signing: bytes, with: key).field))
        }
        await withTaskGroup(of: RosterVerdict.self) { group in
            for (index, body) in bodies.enumerated() {
                group.addTask {
                    await store.take(
                        body.bytes,
                        from: RosterMessenger(key: body.field, address: "192.0.\(index / 200).\(index % 200)"))
                }
            }
            for await verdict in group { #expect(verdict == .taken) }
        }
        #expect(try rows().count == 300)
        #expect(await store.commits < 100)
    }

    @Test func `stores pictures of many devices while it stores their states`() async throws {
        let store = try keepingPictures()
        let key = try DeviceKey()
        var messages: [(state: [UInt8], picture: [UInt8], fields: [String])] = []
        for number in 0..<200 {
            let post = Self.post(number)
            let picture = PicturePost(
                device: post.device, kind: .last, taken: Timestamp(clamping: 10), picture: try Self.picture(10).picture)
            messages.append(
                (
                    post.bytes, picture.bytes,
                    try [post.bytes, picture.bytes].map { try DeviceSignature(signing: $0, with: key).field }
                ))
        }
        await withTaskGroup(of: [RosterVerdict].self) { group in
            for (index, message) in messages.enumerated() {
                group.addTask {
                    let address = "192.0.\(index / 200).\(index % 200)"
                    func sender(_ field: String) -> RosterMessenger { RosterMessenger(key: field, address: address) }
                    return await [
                        store.take(message.state, from: sender(message.fields[0])),
                        store.takePicture(message.picture, from: sender(message.fields[1])),
                    ]
                }
            }
            for await verdicts in group { #expect(verdicts == [.taken, .taken]) }
        }
        #expect(try rows().count { $0.pictured != nil } == 200)
    }

    @Test func `refuses another key for a device and keeps its row`() async throws {
        let store = try store()
        let own = try DeviceKey()
        let other = try DeviceKey()
        #expect(try await send(Self.post(), own, to: store) == .taken)
        #expect(try await send(Self.post(name: "Forged", runs: "9.9.9"), other, to: store) == .conflict)
        let row = try #require(try rows().first)
        #expect(row.post.name == "Lobby" && row.post.runs == "1.5.0")
        #expect(row.conflicts == 1 && row.conflict != nil)
        #expect(row.reasons(at: row.seen).map(\.words) == ["another key signs"])
        #expect(try await store.page(query: "")?.html.contains("another key signs for 0 seconds") == true)
        #expect(await store.metrics().contains("clientctl_roster_conflicts 1"))
        // After an operator has forgotten the device, the next key is pinned.
        #expect(try await store.forget(Array(#"{"forget":"\#(row.post.device)"}"#.utf8)) == true)
        #expect(try await send(Self.post(), other, to: store) == .taken)
    }

    @Test func `keeps the row of a device when an old message is repeated, and shows it`() async throws {
        let store = try store()
        let key = try DeviceKey()
        func post(_ checked: Int, _ state: RosterPost.ClientState) -> RosterPost {
            var post = Self.post()
            (post.checked, post.state) = (Timestamp(clamping: checked), state)
            return post
        }
        let (old, now) = (post(1_799_999_000, .good), post(1_799_999_900, .blocked))
        #expect(try await send(old, key, to: store) == .taken)
        #expect(try await send(now, key, to: store) == .taken)
        guard case .malformed = try await send(old, key, to: store) else {
            Issue.record("the host accepted an old message")
            return
        }
        let row = try #require(try rows().first)
        #expect(row.post == now && row.older != nil)
        #expect(row.reasons(at: row.seen).map(\.words).contains("sends old messages"))
        #expect(try RosterRow(.object(row.json(at: row.seen))) == row)
        #expect(try await send(post(1_800_000_000, .good), key, to: store) == .taken)
        #expect(try rows().first?.older == nil)
    }

    @Test func `shows the pinned and the refused key, and pins the key that an operator names`() async throws {
        let store = try store()
        let first = try DeviceKey()
        let second = try DeviceKey()
        #expect(try await send(Self.post(), first, to: store) == .taken)
        #expect(try await send(Self.post(), second, to: store) == .conflict)
        let row = try #require(try rows().first)
        let (pinned, refused) = (try #require(row.key), try #require(row.refusedKey))
        #expect(pinned != refused && RosterFile.isKey(pinned) && RosterFile.isKey(refused))
        let page = try #require(try await store.page(of: row.post.device)?.html)
        #expect(page.contains(pinned) && page.contains(refused))
        func forget(_ more: JSONObject) async throws -> Bool? {
            var object: JSONObject = ["forget": .string(Self.post().device)]
            for member in more.members { object[member.name] = member.value }
            return try await store.forget(JSONWriter.bytes(of: .object(object)))
        }
        #expect(try await forget(["key": .string("short")]) == nil)
        #expect(try await forget(["key": .string(refused), "more": .null]) == nil)
        #expect(try await forget(["key": .string(refused)]) == true)
        #expect(try rows().first?.conflict == nil && rows().first?.refusedKey == nil)
        #expect(try await send(Self.post(), first, to: store) == .conflict)
        #expect(try await send(Self.post(), second, to: store) == .taken)
        #expect(try rows().count == 1)
    }

    @Test func `refuses a name in the form of an ID, and reads one that an earlier version accepted`() async throws {
        let store = try store()
        let key = try DeviceKey()
        for name in ["00000000000000ff", "device:00000000000000ff"] {
            guard case .malformed = try await send(Self.post(name: name), key, to: store) else {
                Issue.record("the host accepted the name \(name)")
                continue
            }
        }
        let row = RosterRow(
            post: Self.post(name: "device:00000000000000ff"), seen: .now, first: .now, since: .now, conflict: nil,
            conflicts: 0)
        #expect(try RosterRow(.object(row.json(at: .now))).post.name == "device:00000000000000ff")
    }

    @Test func `reads and continues a roster of clientctl 0.9.0`() async throws {
        let path = folder.file("roster.db")
        let old = try SQLite(path, isReadOnly: false)
        try old.run(
            """
            CREATE TABLE devices (
              device TEXT PRIMARY KEY, name TEXT NOT NULL, appId TEXT, runs TEXT, state TEXT NOT NULL, next TEXT,
              waiting TEXT, screen TEXT, shell TEXT, channel TEXT, sequence INTEGER, checked INTEGER, code TEXT,
              blocked TEXT NOT NULL, findings TEXT NOT NULL, program TEXT NOT NULL, interval INTEGER NOT NULL,
              seen INTEGER NOT NULL, first INTEGER NOT NULL, since INTEGER NOT NULL,
              key TEXT NOT NULL, conflict INTEGER, conflicts INTEGER NOT NULL DEFAULT 0
            ) WITHOUT ROWID;
            INSERT INTO devices VALUES ('00000000000000aa', 'Old', NULL, '1.0.0', 'good', NULL, NULL, NULL, NULL, NULL, NULL,
              1799999000, NULL, '', '', '0.9.0', 900, 1799999000, 1799999000, 1799999000, 'k', NULL, 0);
            PRAGMA user_version = 1;
            """)
        #expect(try rows().first?.key == "k" && rows().first?.older == nil)
        let key = try DeviceKey()
        let post = Self.post(0xaa)
        #expect(try await send(post, key, to: store()) == .conflict)
        #expect(try rows().first?.refusedKey != nil)
        #expect(try RosterFile(path, isReadOnly: true).rows(RosterFilter(), at: .now).total == 1)
        let added = try rows().map { $0.began.keys.sorted() }
        #expect(added == [["conflict"]])
    }

    @Test func `refuses messages that no device sends`() async throws {
        let store = try store()
        let key = try DeviceKey()
        let good = Self.post().bytes
        let field = try DeviceSignature(signing: good, with: key).field
        func isMalformed(_ body: [UInt8], _ field: String?) async -> Bool {
            if case .malformed = await store.take(
                body, from: RosterMessenger(key: field, address: "198.51.100.\(Int.random(in: 0...255))"))
            {
                true
            } else {
                false
            }
        }
        #expect(await isMalformed(good, nil))
        #expect(await isMalformed(good, "nonsense"))
        #expect(await isMalformed(Self.post(2).bytes, field), "another body")
        let text = String(decoding: good, as: UTF8.self)
        let unknown = Array(text.replacing(#""schema":1"#, with: #""schema":1,"ip":"x""#).utf8)
        #expect(await isMalformed(unknown, try DeviceSignature(signing: unknown, with: key).field))
        var long = Self.post()
        long.name = String(repeating: "n", count: 65)
        #expect(await isMalformed(long.bytes, try DeviceSignature(signing: long.bytes, with: key).field))
        long.name = String(repeating: "n", count: 4000)
        #expect(await isMalformed(long.bytes, try DeviceSignature(signing: long.bytes, with: key).field))
        let other = try PrivateKey.generate(.ecdsaP256)
        let foreign = "\(Base64.encode(other.publicKey.spki)):\(Base64.encode(try other.sign(good)))"
        #expect(await isMalformed(good, foreign), "not Ed25519")
        #expect(try rows().isEmpty)
    }

    @Test func `limits the messages of one address and accepts those of others`() async throws {
        let store = try store()
        var verdicts: [RosterVerdict] = []
        for _ in 0..<40 {
            verdicts.append(
                await store.take([], from: RosterMessenger(key: nil, address: "2001:db8::\(verdicts.count)")))
        }
        #expect(verdicts.filter { $0 == .tooMany(retryAfter: 30) }.count >= 10, "one network of 64 bits")
        let key = try DeviceKey()
        #expect(try await send(Self.post(), key, to: store, from: "2001:db8:0:1::1") == .taken)
    }

    @Test func `allows 5 messages a second after a burst of 20`() {
        var allowance = AddressAllowance()
        let burst = (0..<30).filter { _ in allowance.consume("192.0.2.1", at: .zero) }.count
        #expect(burst == 20)
        let later = (1...100).filter { allowance.consume("192.0.2.1", at: .milliseconds($0 * 100)) }.count
        #expect((49...51).contains(later))
        #expect(AddressAllowance.network(of: "::ffff:192.0.2.1") == AddressAllowance.network(of: "192.0.2.1"))
    }

    // MARK: Time

    @Test func `a device is silent after two of its intervals`() async throws {
        let key = try DeviceKey()
        #expect(try await send(Self.post(), key, to: store()) == .taken)
        let row = try #require(try rows().first)
        let seen = row.seen.secondsSinceEpoch
        #expect(!RosterRule.isSilent(row, at: Timestamp(clamping: seen + 1800)))
        #expect(RosterRule.isSilent(row, at: Timestamp(clamping: seen + 1801)))
        var filter = RosterFilter()
        filter.silent = .seconds(86_400)
        #expect(try rows(filter, after: 86_400).isEmpty)
        #expect(try rows(filter, after: 86_401).count == 1)
    }

    @Test func `each reason keeps its time until it ends`() async throws {
        let key = try DeviceKey()
        let start = time.withLock(\.self)
        func step(_ seconds: Int, _ change: (inout RosterPost) -> Void) async throws -> [String] {
            time.withLock { $0 = Timestamp(clamping: start.secondsSinceEpoch + seconds) }
            var post = Self.post()
            change(&post)
            #expect(try await send(post, key, to: store()) == .taken)
            let row = try #require(try rows().first)
            #expect(try RosterRow(.object(row.json(at: row.seen))) == row)
            return row.reasons(at: row.seen).map { $0.text(at: row.seen) }
        }
        #expect(try await step(0) { $0.state = .failed } == ["failed for 0 seconds"])
        #expect(
            try await step(7200) { ($0.state, $0.code) = (.failed, "diskFull") }
                == ["failed for 2 hours", "disk full for 0 seconds"])
        // Another status is the same reason.
        #expect(
            try await step(7300) { $0.code = "httpStatus:404" } == ["the server answers 404 for 0 seconds"])
        #expect(
            try await step(7400) { $0.code = "httpStatus:500" } == ["the server answers 500 for 1 minute"])
        #expect(try await step(180_000) { $0.state = .failed } == ["failed for 0 seconds"])
        #expect(try await step(360_000) { $0.state = .failed } == ["failed for 2 days"])
        #expect(try await step(360_100) { _ in }.isEmpty)
        time.withLock { $0 = Timestamp(clamping: start.secondsSinceEpoch + 360_100 + 7200) }
        let row = try #require(try rows().first)
        #expect(
            row.reasons(at: time.withLock(\.self)).map { $0.text(at: time.withLock(\.self)) } == ["silent for 2 hours"])
    }

    // MARK: Fifty screens

    /// Sends the messages of 50 devices: 3 are broken, 36 wait for the rollout. Their names do not help to sort them.
    private func fifty(of store: RosterStore) async throws {
        let key = try DeviceKey()
        for number in 0..<50 {
            var post = Self.post(number, name: "Screen \(number)", runs: "1.5.0")
            post.channel = "stable"
            switch number {
            case 17: post.state = .failed
            case 33: (post.state, post.blocked) = (.good, ["1.5.1"])
            case 49: post.code = "diskFull"
            case 0..<38: post.waiting = .rollout
            default: post.runs = "1.5.1"
            }
            #expect(try await send(post, key, to: store, from: "192.0.2.\(number)") == .taken)
        }
    }

    private func feed(_ version: String) throws -> Directory {
        let manifest =
            #"{"version":"\#(version)","url":"a.zip","sha256":"\#(String(repeating: "0", count: 64))","minShellVersion":"1.0.0","signature":"AAAA"}"#
        let release = #"{"rollout":10,\#(manifest.dropFirst())"#
        let payload = """
            {"schema":1,"channel":"stable","sequence":1,"issuedAt":"2027-01-15T08:00:00Z","expires":"2027-02-15T08:00:00Z",\
            "releases":[\(release)]}
            """
        let envelope = SignedEnvelope(payloadType: ChannelFormat.payloadType, payload: Array(payload.utf8))
        let name = "feed-\(Int.random(in: 0..<Int.max))"
        return try Directory.open(folder.writeTree(["channels/stable.json": envelope.document], to: name))
    }

    @Test func `the broken ones of 50 devices are the first rows of page and JSON, in each group`() async throws {
        let expected = try ExpectedDevices(
            file: folder.write(Array("Screen 1\nCanteen\nLobby\n".utf8), to: "expected"))
        let time = time.withLock(\.self)
        let store = try RosterStore(
            folder.file("roster.db"), of: feed("1.5.1"), expecting: expected, environment: Environment(now: { time }))
        try await fifty(of: store)
        func names(_ query: String) async throws -> [String] {
            let html = try #require(try await store.page(query: query)?.html)
            return html.matches(of: /<th scope="row">.*?<bdi>([^<]*)<\/bdi>/).map { String($0.output.1) }
        }
        let all = try await names("")
        #expect(all.prefix(5) == ["Screen 17", "Screen 33", "Screen 49", "Canteen", "Lobby"] && all.count == 52)
        let text = String(decoding: try #require(try await store.document(query: "")), as: UTF8.self)
        let object = try #require(try JSONScanner.parse(Array(text.utf8), maximumBytes: 1 << 20).objectValue)
        let devices = object["devices"]?.arrayValue?.compactMap { $0.objectValue?["name"]?.stringValue } ?? []
        #expect(devices.prefix(3) == ["Screen 17", "Screen 33", "Screen 49"] && devices.count == 50)
        let sentence = try #require(object["inventory"]?.objectValue?["text"]?.stringValue)
        #expect(
            sentence
                == "11 of 52 have 1.5.1; 39 behind since 2027-01-15 (36 wait for the rollout, 1 blocked, 1 disk, 1 failed); 2 never seen"
        )
        let html = try #require(try await store.page(query: "")?.html)
        #expect(html.contains("\(sentence).") && html.contains("failed for 0 seconds"))
        #expect(html.ranges(of: "<tr class=\"bad\"").count == 3, "a device that waits is neutral")
        #expect(html.ranges(of: "<tr class=\"warn\"").count == 2, "only those that were never seen")
        for (query, count) in [
            ("only=attention", 5), ("only=failed", 2), ("only=silent", 0), ("only=waits", 36), ("only=behind", 39),
            ("only=never", 2), ("only=behind,attention", 3), ("only=waits&name=screen+1", 10),
        ] {
            #expect(try await names(query).count == count, "\(query)")
        }
        let group = try #require(try await store.document(query: "only=behind,attention"))
        #expect(try JSONScanner.parse(group, maximumBytes: 1 << 20).objectValue?["total"] == .integer(3))
        await store.expect(try ExpectedDevices(file: folder.write([], to: "expected")))
        #expect(try await names("only=never").isEmpty)
    }

    @Test func `the newest release keeps the time at which the host saw it first`() async throws {
        let start = time.withLock(\.self)
        let key = try DeviceKey()
        for (days, version, since) in [(0, "1.5.1", 0), (1, "1.5.1", 0), (2, "1.5.2", 2)] {
            let now = Timestamp(clamping: start.secondsSinceEpoch + days * 86_400)
            time.withLock { $0 = now }
            let store = try RosterStore(
                folder.file("roster.db"), of: feed(version), environment: Environment(now: { now }))
            var post = Self.post()
            post.channel = "stable"
            #expect(try await send(post, key, to: store) == .taken)
            let newest = try #require(try rows().first?.newest)
            #expect(newest.version.description == version)
            #expect(newest.since.secondsSinceEpoch == start.secondsSinceEpoch + since * 86_400)
        }
    }

    @Test func `a broken device is the first row among thousands`() async throws {
        let path = folder.file("roster.db")
        _ = try store()
        let database = try SQLite(path)
        try database.run(
            """
            WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 4999)
            INSERT INTO devices SELECT printf('%016x', i), printf('Screen %04d', i), NULL, '1.5.0',
              CASE i WHEN 4321 THEN 'failed' ELSE 'good' END, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '', '0.9.0', 900,
              1800000000, 1800000000, 1800000000, 'k', NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL FROM n
            """)
        let html = try #require(try await store().page(query: "")?.html)
        let first = html.firstMatch(of: /<th scope="row">.*?<bdi>([^<]*)<\/bdi>/)?.output.1
        #expect(first == "Screen 4321")
        #expect(html.ranges(of: "<th scope=\"row\">").count == RosterPage.most)
        var filter = RosterFilter()
        filter.groups = [.failed]
        #expect(try RosterFile(path, isReadOnly: true).rows(filter, at: time.withLock(\.self)).total == 1)
    }

    // MARK: Hostile text

    @Test func `no name and no code makes an element or an attribute`() async throws {
        let marks = [
            "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "' onmouseover='alert(1)",
            "</td></tr></table>",
            "</style><style>*{display:none}", "<!--", "-->", "]]>", "<svg/onload=alert(1)>", "&lt;b&gt;", "&#60;b&#62;",
            "javascript:alert(1)", "\" style=\"position:fixed", "\" href=\"//x", "<a href=//x>", "<base href=//x>",
            "<meta http-equiv=refresh>", "<iframe src=//x>", "<form action=//x>", "<input autofocus onfocus=alert(1)>",
            "</title><script>", "</bdi><b>", "`onerror=`", "a\u{0}b", "a\nb", "a\u{202E}b", "\u{2066}x", "\u{1B}[2J",
            "\u{200B}",
            "\u{FEFF}<b>", "{{7*7}}", "${7*7}", "..\\..\\x", "%3Cb%3E", "\\u003cb\\u003e", "＜script＞",
            "=cmd|'/c calc'!A0", String(repeating: "\u{0301}", count: 64), String(repeating: "<", count: 64),
            "\"'<>&",
        ]
        #expect(marks.count == 40)
        let store = try store()
        let key = try DeviceKey()
        for (index, mark) in marks.enumerated() {
            var post = Self.post(index, name: mark)
            // Codes and versions are visible ASCII characters.
            let word = String(String.UnicodeScalarView(mark.unicodeScalars.filter { (0x21..<0x7F).contains($0.value) }))
            let short = word.isEmpty ? "x" : String(word.prefix(32))
            (post.code, post.blocked, post.findings) = (short, [short], [short])
            (post.runs, post.next, post.appId, post.program) = (short, short, short, short)
            #expect(try await send(post, key, to: store, from: "192.0.2.\(index)") == .taken, "\(mark)")
        }
        let expected = try ExpectedDevices(
            file: folder.write(Array(marks.filter { !$0.contains("\n") }.joined(separator: "\n").utf8), to: "expected"))
        await store.expect(expected)
        // Each tag as its name and the names of its attributes. A browser reads scalars, not characters.
        func shape(_ html: String) -> [String] {
            html.matches(of: /<[^>]*>/.matchingSemantics(.unicodeScalar)).map { tag in
                let text = String(String.UnicodeScalarView(tag.output.unicodeScalars.dropLast()))
                return String(text.prefix { $0 != " " }) + " "
                    + text.matches(of: /\s([a-z-]+)="[^"]*"/).map { String($0.output.1) }.joined(separator: " ")
            }
        }
        func count(of tag: String, in html: String) -> Int { Array(html.utf8).ranges(of: Array(tag.utf8)).count }
        let elements: Set = [
            "!doctype", "html", "head", "meta", "title", "style", "body", "header", "h1", "p", "main", "ul", "li", "a",
            "b",
            "form", "label", "input", "button", "table", "thead", "tbody", "tr", "th", "td", "small", "time", "bdi",
            "code",
            "dl", "div", "dt", "dd",
        ]
        var pages = [try #require(try await store.page(query: "")?.html)]
        for index in marks.indices {
            pages.append(try #require(try await store.page(of: Self.post(index).device)?.html))
        }
        for html in pages {
            for tag in shape(html) {
                let name = tag.prefix { $0 != " " }.drop { $0 == "<" || $0 == "/" }
                #expect(elements.contains(String(name)), "\(tag)")
                for attribute in tag.drop(while: { $0 != " " }).split(separator: " ") {
                    #expect(!attribute.hasPrefix("on") && attribute != "style" && attribute != "src", "\(tag)")
                }
            }
            for link in html.matches(of: /(?:href|action)="([^"]*)"/) { #expect(link.output.1.hasPrefix("/roster")) }
            #expect(count(of: "<style>", in: html) == 1 && count(of: "<title>", in: html) == 1)
            for scalar in ["\u{202E}", "\u{1B}", "\u{0}", "\u{2066}", "\u{200B}"] { #expect(!html.contains(scalar)) }
        }
        #expect(try await store.page(of: "00000000000000ff") == nil)
        #expect(try await store.page(of: "<b>") == nil)
    }

    @Test func `the page of a device shows each reason with its remedy, and everything else about it`() async throws {
        let store = try store()
        var post = Self.post(7, name: "Lobby 3")
        (post.state, post.code, post.findings) = (.failed, "diskFull", ["inodes"])
        (post.channel, post.sequence, post.screen) = ("stable", 18, .client)
        #expect(try await send(post, DeviceKey(), to: store) == .taken)
        let row = try #require(try rows().first)
        let html = try #require(try await store.page(of: post.device)?.html)
        for reason in row.reasons(at: row.seen) {
            let parts = reason.remedy.split(separator: "`")
            #expect(html.contains(reason.words) && parts.allSatisfy { html.contains($0) }, "\(reason)")
        }
        for fact in row.facts(at: row.seen) { #expect(html.contains("<dt>\(fact.name)</dt>"), "\(fact)") }
        #expect(html.contains("stable, sequence 18") && html.contains("<code>diskFull</code>"))
    }

    @Test func `the version that runs keeps its time until it changes`() async throws {
        let key = try DeviceKey()
        let start = time.withLock(\.self)
        for (seconds, runs) in [(0, "1.5.0"), (900, "1.5.0"), (1800, "1.5.1")] {
            time.withLock { $0 = Timestamp(clamping: start.secondsSinceEpoch + seconds) }
            #expect(try await send(Self.post(runs: runs), key, to: store()) == .taken)
            let row = try #require(try rows().first)
            #expect(row.since.secondsSinceEpoch - start.secondsSinceEpoch == (seconds == 900 ? 0 : seconds))
            #expect(row.first == start)
        }
    }

    @Test func `forgets a device after 90 days without a message`() async throws {
        let key = try DeviceKey()
        #expect(try await send(Self.post(), key, to: store()) == .taken)
        time.withLock { $0 = Timestamp(clamping: $0.secondsSinceEpoch + 90 * 86_400) }
        _ = try store()
        #expect(try rows().count == 1)
        time.withLock { $0 = Timestamp(clamping: $0.secondsSinceEpoch + 1) }
        _ = try store()
        #expect(try rows().isEmpty)
    }

    // MARK: Limits

    @Test func `pins the first key and refuses new devices above the limit`() {
        func verdict(pinned: String?, devices: Int) -> RosterRule.Verdict {
            let last = pinned.map { RosterRule.LastPost(key: $0, checked: nil, seen: .now) }
            return RosterRule.verdict(on: Self.post(), by: "a", after: last, devices: devices)
        }
        #expect(verdict(pinned: nil, devices: 0) == .new)
        #expect(verdict(pinned: "a", devices: RosterRule.most) == .known)
        #expect(verdict(pinned: "b", devices: 1) == .impostor)
        #expect(verdict(pinned: nil, devices: RosterRule.most) == .full)
    }

    @Test func `refuses a file that is not a roster`() throws {
        let path = try folder.write(Array("not a database, and long enough to be read as one".utf8), to: "other")
        #expect { try RosterStore(path) } throws: { ($0 as? UpdateFailure)?.code == .configInvalid }
    }

    @Test func `metrics count devices by version and state and contain no name`() async throws {
        let store = try store()
        let key = try DeviceKey()
        for number in 0..<3 {
            let post = Self.post(number, name: "Secret \(number)", runs: number == 0 ? "1.4.0" : "1.5.0")
            #expect(try await send(post, key, to: store) == .taken)
        }
        let text = await store.metrics()
        #expect(text.contains(#"clientctl_roster_devices{version="1.5.0",state="good"} 2"#))
        #expect(text.contains(#"clientctl_roster_silent{over="1d"} 0"#))
        #expect(text.contains(#"clientctl_roster_silent{over="2 intervals"} 0"#))
        time.withLock { $0 = Timestamp(clamping: $0.secondsSinceEpoch + 1801) }
        #expect(try await self.store().metrics().contains(#"clientctl_roster_silent{over="2 intervals"} 3"#))
        #expect(!text.contains("Secret"))
        let many = (0..<200).map { RosterFile.Tally(version: "1.0.\($0)", state: "good", devices: 1) }
        #expect(MetricsText.text(of: [RosterMetrics.devices(many)]).split(separator: "\n").count == 53)
    }

    // MARK: Page and queries

    @Test func `shows hostile names as text on one line`() async throws {
        let names = [
            "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "a\u{202E}txt.exe", "\u{1B}[2Jgone", "a\nb",
            "a\u{0}b", "&lt;b&gt;", "' onmouseover='x", "\u{200B}", "</table></main>", "\u{2066}x", "a\u{7F}",
            String(repeating: "\u{0301}", count: 64), "{{7*7}}", "=cmd|'/c calc'!A0", "..\\..\\x",
        ]
        let store = try store()
        let key = try DeviceKey()
        for (index, name) in names.enumerated() {
            #expect(try await send(Self.post(index, name: name), key, to: store) == .taken)
        }
        let display = try #require(try await store.page(query: ""))
        let (html, policy) = (display.html, display.policy)
        let body = html.split(separator: "</style>")[1]
        for mark in [
            "<script", "<img", "onerror=alert(1)>", "\u{202E}", "\u{1B}", "\u{0}", "\u{2066}", "' onmouseover",
        ] {
            #expect(!body.contains(mark), "\(mark)")
        }
        #expect(body.contains("&lt;script&gt;alert(1)&lt;/script&gt;"))
        #expect(policy.hasPrefix("default-src 'none'; style-src 'sha256-"))
        #expect(!policy.contains("script-src") && !policy.contains("unsafe"))
        #expect(Set(try rows().map(\.post.name)) == Set(names))
    }

    @Test func `parses exactly the filters of the page`() throws {
        let filter = try #require(RosterFilter(query: "?name=Lobby+3%21&version=1.5.0&silent=24h&state="))
        #expect(filter.name == "Lobby 3!" && filter.version == "1.5.0" && filter.silent == .seconds(86_400))
        #expect(RosterFilter(query: filter.query) == filter)
        let groups = try #require(RosterFilter(query: "?only=behind,attention"))
        #expect(groups.groups == [.behind, .attention] && groups.query == "only=attention%2Cbehind")
        #expect(RosterFilter(query: groups.query) == groups)
        for query in [
            "?only=all", "?only=behind,", "?silent=soon", "?name=%", "?name=%zz", "?sql=1", "?name=a&name=b",
            "?name=%FF",
        ] {
            #expect(RosterFilter(query: query) == nil, "\(query)")
        }
    }

    @Test func `finds a device by a part of its name in any case, and by its ID`() async throws {
        let store = try store()
        let key = try DeviceKey()
        for (number, name) in [(1, "Lobby 3"), (2, "50% off"), (3, "Hall_1")] {
            #expect(try await send(Self.post(number, name: name), key, to: store) == .taken)
        }
        for (text, found) in [
            ("lobby", "Lobby 3"), ("%", "50% off"), ("_", "Hall_1"), ("device:0000000000000001", "Lobby 3"),
        ] {
            var filter = RosterFilter()
            filter.name = text
            #expect(try rows(filter).map(\.post.name) == [found], "\(text)")
        }
    }
}
