import BundleCore
import BundleSigning
import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

@testable import ArchiveSource
import BundleFormats

/// The host of phones, the module for apps and the rule of `clientctl check` choose the same release.
@Suite(.ownThread) struct PhoneAgreementTests {
    private static let versions = [
        "0.9.0", "1.0.0", "1.1.0", "1.2.0-beta.1", "1.2.0-beta.11", "1.2.0", "1.10.0", "2.0.0", "10.0.0",
    ]
    private static let groups = ["qa", "eu", "staff"]
    private static let module = Checkout.root + "/Sources/Fleet/BundleFleet/Phones/page-module.mjs"

    /// Two documents of one channel after each other, with phones that see each.
    private struct Scene {
        var documents: [SceneDocument] = []
    }

    private struct SceneDocument {
        let envelope: SignedEnvelope
        let hold: SignedEnvelope?
        let now: Timestamp
        let phones: [Phone]
    }

    fileprivate struct Phone {
        let id: String
        let groups: [String]
        let shell: String
        let running: String?
    }

    private let feed: TrustFeed
    private let root: TrustRoot
    private var random: SeededGenerator

    init() throws {
        let feed = try TrustFeed(appId: "com.example.app")
        self.feed = feed
        root = feed.trustRoot { $0.set(.guard, [feed.keys[5]]) }
        random = SeededGenerator(seed: 20_261_129)
    }

    @Test mutating func `ten thousand phones get the same answer from three implementations`() throws {
        let anchor = try feed.pinned(root)
        var vectors: [JSONValue] = []
        var (answers, count): ([String: Int], Int) = ([:], 0)
        for _ in 0..<200 {
            let scene = try scene()
            var (memory, known): (FeedMemory, FeedMemory.ChannelMemory?) = (FeedMemory(), nil)
            var documents: [JSONValue] = []
            for document in scene.documents {
                let device = try NewDevice(trusting: anchor, clock: document.now)
                let channel = Result {
                    try PhoneChannel(
                        document.envelope.document, channel: "stable", hold: document.hold?.document, on: device,
                        following: known)
                }
                known = (try? channel.get().memory) ?? known
                var (phones, next): ([JSONValue], FeedMemory) = ([], memory)
                for phone in document.phones {
                    let expected = checked(phone, document, anchor, memory, &next)
                    let served = Self.answer { try Self.word(channel.get().judge(phone.stated(), at: document.now)) }
                    #expect(served == expected, "\(phone) at \(document.now)")
                    answers[expected.split(separator: " ").prefix(2).joined(separator: " "), default: 0] += 1
                    count += 1
                    phones.append(phone.json(expecting: expected))
                }
                memory = next
                documents.append(
                    .object([
                        "channel": .string(String(decoding: document.envelope.document, as: UTF8.self)),
                        "hold": .string(orNull: document.hold.map { String(decoding: $0.document, as: UTF8.self) }),
                        "now": .integer(document.now.secondsSinceEpoch), "phones": .array(phones),
                    ]))
            }
            vectors.append(.array(documents))
        }
        #expect(count == 10_000)
        // Each kind of answer is tried often.
        for kind in [
            "install", "upToDate", "leave", "refused", "blocked paused", "blocked app_too_old", "blocked not_signed",
        ] {
            let found = answers.filter { $0.key.hasPrefix(kind) }.values.reduce(0, +)
            #expect(found > 50, "\(kind): \(answers)")
        }
        try expectModule(agreesOn: vectors)
    }

    // MARK: The three implementations

    /// Returns the answer of the rule that `clientctl check` uses. `next` becomes the memory of the device.
    private func checked(
        _ phone: Phone, _ document: SceneDocument, _ anchor: TrustAnchor, _ memory: FeedMemory, _ next: inout FeedMemory
    ) -> String {
        Self.answer {
            let stated = try phone.stated()
            let claims = try ChannelFormat.parse(document.envelope).claims
            let running = try stated.running.map { version in
                let release = claims.releases.first { $0.version == version }
                return BundleIdentity(
                    version: version,
                    shells: try release?.manifest.claims.shells ?? ShellRange(minimum: .zero))
            }
            // The rollout of a phone does not depend on earlier documents of the host.
            var own = memory
            own.deviceId = nil
            own.groups = stated.groups
            let inventory = try Inventory.stated(running: running, feed: own)
            let poll = try FeedPoll(
                anchor, OfferRequest(inventory: inventory, shell: stated.shell, appId: nil), clock: document.now)
            let offer = try poll.offer(
                of: document.envelope, channel: "stable",
                deviceId: ArchiveSource.DeviceId(given: stated.id, groups: stated.groups),
                hold: document.hold.map { .found($0.document) } ?? .none)
            let update = try #require(offer.feed)
            next = memory
            next.follow(try #require(update.after.followed))
            let after = inventory.recording(update)
            let verdict = offer.decide(after, shell: stated.shell, appId: nil).verdict
            if case .install = verdict { return "install \(offer.clientVersion.semantic?.description ?? "")" }
            if stated.running != nil, SelectionRule.newestUsable(after, shell: stated.shell) == nil { return "leave" }
            return switch verdict {
            case .notInRollout(_, let detail) where detail.contains("paused"): "blocked paused"
            case .incompatible(.shellTooOld): "blocked app_too_old"
            case .incompatible: "blocked app_too_new"
            case .unsuitable: "blocked not_signed"
            case .wrongApp: "blocked wrong_app"
            default: "upToDate"
            }
        }
    }

    private static func answer(_ work: () throws -> String) -> String {
        do { return try work() } catch { return "refused" }
    }

    private static func word(_ verdict: PhoneVerdict) -> String {
        switch verdict {
        case .install(let version, _): "install \(version)"
        case .upToDate: "upToDate"
        case .leave: "leave"
        case .blocked(let objection):
            switch (objection.rule, objection.verdict) {
            case (.pause, _): "blocked paused"
            case (.signature, _): "blocked not_signed"
            case (.application, _): "blocked wrong_app"
            case (.shell, .incompatible(.shellTooOld)): "blocked app_too_old"
            case (.shell, _): "blocked app_too_new"
            case (let rule, _): "blocked \(rule)"
            }
        }
    }

    /// Runs the module in node with the documents of each scene, and compares its answers.
    private func expectModule(agreesOn vectors: [JSONValue]) throws {
        func role(_ pair: SigningPair) -> JSONValue {
            .object([
                "threshold": .integer(1),
                "keys": .object([pair.id: .string(Base64.encode(pair.trusted.keys[0].spki))]),
            ])
        }
        let trust: JSONObject = [
            "expires": .string(root.expires.description), "appId": .string(orNull: root.appId),
            "roles": .object([
                "release": role(feed.release), "channel": role(feed.channel), "guard": role(feed.keys[5]),
            ]),
        ]
        let folder = try TemporaryFolder()
        let file = try folder.write(
            JSONWriter.bytes(of: .object(["trust": .object(trust), "scenes": .array(vectors)])), to: "vectors.json")
        let script = try folder.write(Array(Self.script.utf8), to: "vectors.mjs")
        let ending = try Program.run(["node", script, Self.module, file], environment: ["PATH": "/usr/bin:/bin"])
        #expect(ending.status == 0, "\(ending.text)\(ending.errors)")
        #expect(ending.text == "10000 agree\n")
    }

    private static let script = """
        import { readFileSync } from 'node:fs';
        const [module, file] = process.argv.slice(2);
        const { openChannel, shellVersion } = await import(module);
        const { trust, scenes } = JSON.parse(readFileSync(file, 'utf8'));
        let [count, wrong] = [0, 0];
        for (const scene of scenes) {
          const kept = new Map();
          const storage = { getItem: (name) => kept.get(name) ?? null, setItem: (name, value) => kept.set(name, value) };
          for (const { channel, hold, now, phones } of scene) {
            const fetch = async (url) => {
              const body = url.endsWith('.hold.json') ? hold : channel;
              return body === null ? { ok: false, status: 404 } : { ok: true, text: async () => body };
            };
            const opened = await openChannel({ feed: 'https://feed/', trust, storage, fetch, now }).catch((error) => error);
            for (const { id, groups, shell, running, expected } of phones) {
              let answer = 'refused';
              if (opened.judge) {
                const { action, version, reason } = await opened.judge({ id, groups, shell: shellVersion(shell), running }, now);
                answer = [action, version, reason].filter(Boolean).join(' ');
              } else if (opened.name === 'TypeError' || opened.name === 'ReferenceError') throw opened;
              count++;
              if (answer !== expected && wrong++ < 10) console.log(`${answer} instead of ${expected}`, { id, groups, shell, running, now }, channel);
            }
          }
        }
        console.log(wrong === 0 ? `${count} agree` : `${wrong} of ${count} differ`);
        process.exit(wrong === 0 ? 0 : 1);
        """

    // MARK: Random scenes

    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

    private mutating func time() -> Timestamp { Day.number(9, Int.random(in: 0..<3 * 86_400, using: &random)) }

    private mutating func scene() throws -> Scene {
        var scene = Scene()
        for sequence in [3, 4] {
            var document = feed.document(sequence, [])
            document.issuedAt = Day.number(8, sequence)
            if chance(4) { document.expires = Day.number(9) }
            for version in Self.versions.shuffled(using: &random).prefix(Int.random(in: 0...6, using: &random)) {
                document.releases.append(try release(version))
            }
            document.recalled = try some(15).map { FeedMemory.Recall(version: $0, reason: "") }
            let recalled = document.recalled.map(\.version)
            document.reinstated = try some(8).filter { !recalled.contains($0) }.map {
                FeedMemory.Reinstatement(version: $0, sequence: sequence)
            }
            if chance(15) {
                document.minimumVersion = try SemanticVersion(
                    parsing: Self.versions[Int.random(in: 0..<7, using: &random)])
            }
            if chance(10) { document.undoneMinimum = try SemanticVersion(parsing: "2.0.0") }
            let now = time()
            let signer = chance(3) ? feed.release : feed.channel
            scene.documents.append(
                SceneDocument(
                    envelope: try ChannelFormat.envelope(document).signed(by: [signer]),
                    hold: try hold(sequence, now), now: now, phones: (0..<25).map { _ in phone() }))
        }
        return scene
    }

    private mutating func some(_ percent: Int) throws -> [SemanticVersion] {
        var found: [SemanticVersion] = []
        for version in Self.versions where chance(percent) { found.append(try SemanticVersion(parsing: version)) }
        return found
    }

    private mutating func release(_ version: String) throws -> ChannelDocument.Release {
        let isForeign = chance(3)
        let shells = try ShellRange(
            minimum: SemanticVersion(parsing: chance(20) ? "1.5.0" : "1.0.0"),
            maximum: chance(20) ? SemanticVersion(parsing: "2.0.0") : nil)
        var release = try feed.release(version, by: chance(8) ? [feed.channel] : nil) { manifest in
            if isForeign { manifest.appId = "com.example.other" }
            manifest.shells = shells
            manifest.requiredEndpoints = ["/api/health"]
        }
        release.salt = chance(50) ? "salt-\(version)" : ""
        if chance(40) { release.rollout = Int.random(in: 0...1000, using: &random) }
        if chance(25) {
            release.rollout = ChannelDocument.Release.allDevices
            let first = Int.random(in: 1...300, using: &random)
            release.ramp = Ramp([first, first + 200, 1000], every: 86_400, from: Day.number(9))
        }
        if chance(15) {
            release.isPaused = true
            release.ramp = release.ramp?.holding(at: time())
        }
        if chance(25) {
            release.groups = Self.groups.filter { _ in chance(50) }
            if chance(30) { release.groups.append(try DeviceGroup.single("phone-7")) }
            release.isOnlyForGroups = !release.groups.isEmpty && chance(50)
        }
        return release
    }

    private mutating func hold(_ sequence: Int, _ now: Timestamp) throws -> SignedEnvelope? {
        guard chance(40) else { return nil }
        let held = try some(30)
        guard !held.isEmpty else { return nil }
        let seen = [sequence, sequence, sequence + 1, sequence - 1, sequence + 30][
            Int.random(in: 0..<5, using: &random)]
        let issued = Day.number(chance(20) ? 2 : 9)
        let document = HoldDocument(
            appId: chance(5) ? nil : feed.appId, channel: chance(5) ? "beta" : "stable", sequence: seen,
            issuedAt: issued,
            releases: held, reason: "too many starts fail")
        return try HoldFormat.envelope(document).signed(by: [chance(5) ? feed.channel : feed.keys[5]])
    }

    private mutating func phone() -> Phone {
        let shells = ["1.0.0", "1.2", "1.5.0", "2", "2.0.0.44", "2.1.0", "1.4.9+7", "0.9.0"]
        let others = ["builtin", "0.1.0", "not.ours", "11.0.0", "1.2"]
        let isRunning = chance(60)
        return Phone(
            id: "phone-\(Int.random(in: 0..<5000, using: &random))", groups: Self.groups.filter { _ in chance(20) },
            shell: shells[Int.random(in: 0..<shells.count, using: &random)],
            running: isRunning
                ? chance(10) ? others.randomElement(using: &random) : Self.versions.randomElement(using: &random) : nil)
    }
}

extension PhoneAgreementTests.Phone {
    func stated() throws -> StatedPhone {
        StatedPhone(
            id: id, groups: groups, shell: try #require(StatedPhone.shell(shell)),
            running: running.flatMap { try? SemanticVersion(parsing: $0) })
    }

    func json(expecting answer: String) -> JSONValue {
        .object([
            "id": .string(id), "groups": .array(groups.map(JSONValue.string)), "shell": .string(shell),
            "running": .string(orNull: running), "expected": .string(answer),
        ])
    }
}
