import BundleCore
import BundleValues
import BundleTesting
import Testing

@testable import MeteorSource

@Suite("DDPConversation") struct DDPConversationTests {
    typealias Action = DDPConversation.DDPAction

    static let noVersion =
        "the server reports no version for web.cordova yet; if it never does, compare the appId with that of the server"

    static func version(_ text: String) throws -> Action { .versionChanged(try MeteorVersion(parsing: text)) }

    /// A conversation and the present second.
    struct Bench {
        var conversation: DDPConversation
        var now = Duration.zero

        init(appId: String? = "app") {
            conversation = DDPConversation(
                appId: appId, architecture: "web.cordova",
                environment: Environment(random: { ($0.lowerBound + $0.upperBound) / 2 }))
        }

        mutating func handle(_ event: DDPConversation.DDPEvent) -> [Action] { conversation.handle(event, at: now) }

        mutating func receive(_ text: String) -> [Action] { handle(.received(text)) }

        /// Connects and receives these frames as well.
        mutating func connect(_ texts: String...) {
            for event in [.connecting, .opened, .received(DDPTexts.connected)] as [DDPConversation.DDPEvent] {
                _ = handle(event)
            }
            for text in texts { _ = receive(text) }
        }
    }

    // MARK: The steps

    @Test func `connects, subscribes and reports the version`() throws {
        var bench = Bench()
        #expect(bench.handle(.connecting) == [])
        #expect(bench.handle(.opened) == [.send(DDPTexts.connect), .wake(at: .seconds(10))])
        #expect(bench.receive(#"{"server_id":"0"}"#) == [])
        #expect(bench.receive(DDPTexts.connected) == [.send(DDPTexts.sub)])
        #expect(bench.receive(DDPTexts.added("one")) == [])
        #expect(bench.receive(DDPTexts.ready) == [.ready, try Self.version("one")])
        #expect(bench.receive(DDPTexts.changed(to: "two")) == [try Self.version("two")])
    }

    @Test(arguments: [(nil, "[]"), ("a\"b\n", #"["a\"b\n"]"#)] as [(String?, String)])
    func `subscribes with and without an application ID`(appId: String?, parameters: String) {
        var bench = Bench(appId: appId)
        _ = (bench.handle(.connecting), bench.handle(.opened))
        let text = DDPTexts.sub(id: "1", parameters: parameters)
        #expect(bench.receive(DDPTexts.connected) == [.send(text)])
    }

    @Test(
        arguments: [
            (#"{"msg":"ping"}"#, #"{"msg":"pong"}"#), (#"{"msg":"ping","id":"7\"é"}"#, #"{"msg":"pong","id":"7\"é"}"#),
            (#"{"id":"x","msg":"ping","more":1.5e3}"#, #"{"msg":"pong","id":"x"}"#),
            (#"{"msg":"ping","id":7.5}"#, #"{"msg":"pong"}"#),
        ])
    func `answers a ping with its ID at any time`(ping: String, pong: String) {
        var bench = Bench()
        _ = (bench.handle(.connecting), bench.handle(.opened))
        #expect(bench.receive(ping) == [.send(pong)])
        #expect(bench.receive(DDPTexts.connected) == [.send(DDPTexts.sub)])
        #expect(bench.receive(ping) == [.send(pong)])
    }

    @Test func `logs errors of the server in one printable line`() {
        var bench = Bench()
        bench.connect()
        let text = #"{"msg":"error","reason":"Must connect\nfirst","offendingMessage":{"msg":"sub","x":[1.5,null]}}"#
        #expect(bench.receive(text) == [.log(#"the server reports an error: Must connect\x0Afirst"#)])
        #expect(bench.receive(#"{"msg":"error"}"#) == [.log("the server reports an error: no reason given")])
    }

    // MARK: Versions of DDP

    @Test func `selects the server's version of DDP`() {
        var bench = Bench()
        _ = (bench.handle(.connecting), bench.handle(.opened))
        let actions = bench.receive(#"{"msg":"failed","version":"pre2"}"#)
        #expect(actions.suffix(2) == [.close, .reconnect(after: .milliseconds(10))])
        _ = bench.handle(.connecting)
        let text = #"{"msg":"connect","version":"pre2","support":["1","pre2","pre1"]}"#
        #expect(bench.handle(.opened) == [.send(text), .wake(at: .seconds(10))])
        #expect(bench.receive(DDPTexts.connected) == [.send(DDPTexts.sub)])
    }

    @Test(arguments: ["2", "1", "", "x\n"])
    func `ends without a common version of DDP`(version: String) {
        var bench = Bench()
        _ = (bench.handle(.connecting), bench.handle(.opened))
        let text = #"{"msg":"failed","version":"\#(version == "x\n" ? #"x\n"# : version)"}"#
        let actions = bench.receive(text)
        guard actions.count == 2, actions[0] == .close, case .giveUp(let reason) = actions[1] else {
            Issue.record("\(actions)")
            return
        }
        #expect(!reason.contains("\n"))
        #expect(bench.handle(.closed) == [])
    }

    @Test func `ends if a server refuses every version in turn`() {
        var bench = Bench()
        var suggestions: [String] = []
        for suggestion in ["pre2", "pre1", "1"] {
            _ = (bench.handle(.connecting), bench.handle(.opened))
            let actions = bench.receive(#"{"msg":"failed","version":"\#(suggestion)"}"#)
            if case .giveUp? = actions.last { break }
            suggestions.append(suggestion)
        }
        #expect(suggestions == ["pre2", "pre1"])
    }

    // MARK: Documents

    @Test func `N-21: accepts a document after ready`() throws {
        var bench = Bench()
        bench.connect()
        #expect(bench.receive(DDPTexts.ready) == [.ready, .log(Self.noVersion)])
        #expect(bench.receive(DDPTexts.added("one")) == [try Self.version("one")])
    }

    @Test func `ignores the end of another subscription`() throws {
        var bench = Bench()
        bench.connect(DDPTexts.added("one"))
        for text in [#"{"msg":"ready","subs":["2"]}"#, #"{"msg":"ready"}"#] { #expect(bench.receive(text) == []) }
        #expect(bench.receive(DDPTexts.ready) == [.ready, try Self.version("one")])
    }

    @Test func `N-21: ignores tombstones`() {
        var bench = Bench()
        bench.connect()
        for id in ["version", "version-refreshable", "version-cordova"] {
            #expect(bench.receive(DDPTexts.added("outdated", id: id)) == [])
        }
        #expect(bench.receive(DDPTexts.ready) == [.ready, .log(Self.noVersion)])
    }

    @Test func `N-21: reads the single document of a server before 1.7.1`() throws {
        var bench = Bench()
        bench.connect()
        _ = bench.receive(DDPTexts.added("old", id: "version-cordova"))
        #expect(bench.receive(DDPTexts.ready) == [.ready, try Self.version("old")])
    }

    @Test func `N-21: reports ready without a document for another application`() {
        var bench = Bench()
        bench.connect()
        #expect(bench.receive(DDPTexts.ready) == [.ready, .log(Self.noVersion)])
    }

    @Test(arguments: [
        #"{"versionHmr":1.5,"assets":[{"url":"/a.css"}]}"#, #"{"version":"one"}"#, "{}", "null",
    ])
    func `N-21: ignores changes of other fields`(fields: String) throws {
        var bench = Bench()
        bench.connect(DDPTexts.added("one"), DDPTexts.ready)
        #expect(bench.receive(DDPTexts.changed(fields)) == [])
        #expect(bench.receive(DDPTexts.changed(to: "two")) == [try Self.version("two")])
    }

    @Test(arguments: [
        DDPTexts.changed("{}", cleared: #"["x","version"]"#), DDPTexts.changed(#"{"version":1.5}"#), DDPTexts.removed,
    ])
    func `N-21: reports nothing for a removed version and reports its return`(gone: String) throws {
        var bench = Bench()
        bench.connect(DDPTexts.added("one"), DDPTexts.ready)
        #expect(bench.receive(gone) == [])
        #expect(bench.receive(DDPTexts.added("one")) == [try Self.version("one")])
    }

    @Test(arguments: [
        #"{"msg":"added","collection":"users","id":"web.cordova","fields":{"version":"x"}}"#,
        #"{"msg":"added","collection":"meteor_autoupdate_clientVersions","fields":{"version":"x"}}"#,
        #"{"msg":"added","collection":"meteor_autoupdate_clientVersions","id":7,"fields":{"version":"x"}}"#,
        #"{"msg":"added","id":"web.cordova","fields":{"version":"x"}}"#,
        #"{"msg":"removed","id":"web.cordova"}"#, #"{"msg":"removed","collection":"users","id":"web.cordova"}"#,
        #"{"msg":"ready","subs":["2"]}"#, #"{"msg":"ready","subs":"1"}"#, #"{"msg":"ready"}"#,
        #"{"msg":"nosub","id":"2"}"#, #"{"msg":"nosub"}"#, #"{"msg":"connected"}"#,
        #"{"msg":"failed","version":"pre1"}"#,
        #"{"msg":"updated","methods":["1"]}"#, #"{"msg":"result","id":"1"}"#, #"{"msg":null}"#, #"{"msg":["ping"]}"#,
        "{}",
        #"{"msg":"pong"}"#, #"{"msg":"addedBefore","collection":"c","id":"i","before":null}"#,
    ])
    func `ignores documents of other clients`(text: String) throws {
        var bench = Bench()
        bench.connect(DDPTexts.added("one"), DDPTexts.ready)
        #expect(bench.receive(text) == [])
        #expect(bench.receive(DDPTexts.changed(to: "two")) == [try Self.version("two")])
    }

    @Test(arguments: [
        "../x", "", "Downloading", #"a\nb"#, "outdated", String(repeating: "v", count: 4096),
    ])
    func `ignores an invalid version`(version: String) throws {
        var bench = Bench()
        bench.connect(DDPTexts.added("one"), DDPTexts.ready)
        let actions = bench.receive(DDPTexts.changed(#"{"version":"\#(version)"}"#))
        for action in actions {
            guard case .log = action else {
                Issue.record("\(action)")
                continue
            }
        }
        #expect(bench.receive(DDPTexts.changed(to: "two")) == [try Self.version("two")])
    }

    // MARK: Invalid frames

    @Test(arguments: [
        "", " ", "{", #"{"msg":"pi"#, #"{"msg":"ping""#, #"{"msg":"ping"}{"#, "[]", "null", "7", #""ping""#,
        #"a["{\"msg\":1}"]"#,
        "o", "h", #"{"msg":"ping","msg":"ping"}"#, #"{"msg":"\ud800"}"#, #"{"msg":01}"#, "\u{FEFF}{}",
        "{\"msg\":\"\u{0}\"}",
        #"{"msg":"added","collection":"c","id":"i","fields":{"version":"a","version":"b"}}"#,
        #"{"x":"# + String(repeating: "[", count: 100_000),
        String(repeating: #"{"x":"#, count: 65) + "1" + String(repeating: "}", count: 65),
        #"{"msg":""# + String(repeating: "x", count: 9000) + #""}"#,
        #"{"x":""# + String(repeating: "x", count: 1 << 20) + #""}"#,
    ])
    func `N-21: ignores garbage`(text: String) throws {
        var bench = Bench()
        bench.connect(DDPTexts.added("one"), DDPTexts.ready)
        let actions = bench.receive(text)
        #expect(actions.count == 1)
        guard case .log(let sentence)? = actions.first, sentence.hasPrefix("a frame was ignored: "),
            sentence.utf8.count < 300
        else {
            Issue.record("\(actions)")
            return
        }
        #expect(bench.receive(DDPTexts.changed(to: "two")) == [try Self.version("two")])
    }

    @Test func `N-21: reads unusual but valid frames`() throws {
        var bench = Bench()
        bench.connect()
        let text = """
             {"fields" : {"assets":[{"url":"/a","size":1.25e-7}], "x":{"$date":-0}, "version":"o\\u006ee", "_id":"web.cordova"} ,
            "id":"web.cordova","extra":[[[[{}]]]],"collection":"meteor_autoupdate_clientVersions","msg":"added"}\u{20}
            """
        #expect(bench.receive(text) == [])
        #expect(bench.receive(#"{"subs":[null,2.5,{},"1"],"msg":"ready"}"#) == [.ready, try Self.version("one")])
    }

    @Test func `N-21: ignores every half of a frame and reads the whole`() {
        let whole = DDPTexts.added("one")
        for length in 0..<whole.utf8.count {
            var bench = Bench()
            bench.connect()
            _ = bench.receive(String(decoding: whole.utf8.prefix(length), as: UTF8.self))
            #expect(bench.receive(DDPTexts.ready) == [.ready, .log(Self.noVersion)])
        }
    }

    @Test func `N-21: reconnects after many random frames and logs little`() {
        var generator = SeededGenerator(seed: 21)
        let letters = Array(#"{}[]",:\01.e-msgversionfieldsaddedidé"#.unicodeScalars)
        for _ in 0..<200 {
            var bench = Bench()
            bench.connect()
            var actions: [Action] = []
            for _ in 0..<100 {
                var text = String.UnicodeScalarView()
                for _ in 0..<Int.random(in: 0..<40, using: &generator) {
                    text.append(letters.randomElement(using: &generator) ?? "x")
                }
                actions += bench.receive(String(text))
            }
            #expect(actions.suffix(2) == [.close, .reconnect(after: .milliseconds(10))])
            #expect(actions.count <= 18)
        }
    }

    @Test func `N-21: limits the log of a server that reports many errors`() {
        var bench = Bench()
        bench.connect()
        let count = (0..<1000).map { _ in bench.receive(#"{"msg":"error","reason":"x"}"#).count }.reduce(0, +)
        #expect(count == 20)
        for _ in 0..<15 { _ = bench.receive("x") }
        _ = bench.handle(.closed)
        bench.connect(DDPTexts.added("one"), DDPTexts.ready)
        #expect(bench.receive("x").isEmpty)
        bench.now = .seconds(10)
        // The connection lasted, so new errors are logged again.
        _ = bench.handle(.closed)
        bench.connect()
        #expect(bench.receive("x").count == 1)
    }

    // MARK: Time

    @Test func `leaves the timeout of a connection attempt to the caller`() {
        var bench = Bench()
        _ = bench.handle(.connecting)
        bench.now = .seconds(3600)
        #expect(bench.handle(.woken) == [])
        #expect(bench.handle(.closed) == [.reconnect(after: .milliseconds(10))])
        #expect(bench.handle(.opened) == [])
        #expect(bench.handle(.closed) == [])
    }

    @Test func `requires the server's answer within 10 s`() {
        var bench = Bench()
        _ = bench.handle(.connecting)
        bench.now = .seconds(4)
        _ = bench.handle(.opened)
        bench.now = .milliseconds(13_999)
        #expect(bench.handle(.woken) == [.wake(at: .seconds(14))])
        bench.now = .seconds(14)
        #expect(
            bench.handle(.woken) == [
                .lost("no DDP response within 10s"), .close, .reconnect(after: .milliseconds(10)),
            ])
    }

    @Test(arguments: [#"{"msg":"pong"}"#, #"{"server_id":"0"}"#, #"{"msg":"ping"}"#])
    func `N-21: pings a silent server after 17.5 s and disconnects 15 s later unless it answers`(answer: String) {
        var bench = Bench()
        bench.now = .seconds(100)
        bench.connect(DDPTexts.ready)
        bench.now = .seconds(110)
        #expect(bench.handle(.woken) == [.wake(at: .milliseconds(117_500))])
        bench.now = .milliseconds(117_500)
        #expect(bench.handle(.woken) == [.send(#"{"msg":"ping"}"#), .wake(at: .milliseconds(132_500))])
        bench.now = .seconds(130)
        _ = bench.receive(answer)
        bench.now = .milliseconds(132_500)
        #expect(bench.handle(.woken) == [.wake(at: .milliseconds(147_500))])
        bench.now = .milliseconds(147_500)
        #expect(bench.handle(.woken) == [.send(#"{"msg":"ping"}"#), .wake(at: .milliseconds(162_500))])
        bench.now = .milliseconds(162_500)
        #expect(
            bench.handle(.woken) == [
                .lost("the server did not answer a ping"), .close, .reconnect(after: .milliseconds(10)),
            ])
    }

    @Test func `N-21: reconnects after growing waits, and at once after a connection that lasted`() {
        var bench = Bench()
        func lose() -> Duration? {
            guard case .reconnect(let wait)? = bench.handle(.closed).last else { return nil }
            return wait
        }
        var waits: [Duration?] = []
        for _ in 0..<9 {
            _ = bench.handle(.connecting)
            waits.append(lose())
        }
        let expected = [0.01, 0.01, 4.84, 10.648, 23.4256, 51.53632, 113.379904, 249.4357888, 300]
        for (wait, seconds) in zip(waits, expected) {
            #expect(wait.map { abs($0 / .seconds(1) - seconds) < 0.001 } == true)
        }
        // A connection that is lost at once is not successful, so the wait does not reset.
        bench.connect(DDPTexts.ready)
        bench.now += .milliseconds(9999)
        #expect(lose() == .seconds(300))
        bench.connect(DDPTexts.ready)
        bench.now += .seconds(10)
        #expect(lose() == .milliseconds(10))
    }

    @Test func `N-21: drops documents that the server does not send again after a reconnection`() throws {
        var bench = Bench()
        bench.connect(DDPTexts.added("one"), DDPTexts.ready)
        _ = bench.handle(.closed)
        bench.connect(DDPTexts.added("one"))
        #expect(bench.receive(DDPTexts.ready) == [.ready, try Self.version("one")])
        _ = bench.handle(.closed)
        bench.connect()
        #expect(bench.receive(DDPTexts.ready) == [.ready, .log(Self.noVersion)])
        #expect(bench.receive(DDPTexts.changed(#"{"assets":[]}"#)) == [])
        _ = bench.handle(.closed)
        bench.connect()
        // Nothing is reported before the server has sent all documents.
        #expect(bench.receive(DDPTexts.added("two")) == [])
        #expect(bench.receive(DDPTexts.ready) == [.ready, try Self.version("two")])
    }

    @Test func `N-21: retries a refused subscription after growing waits and keeps answering pings`() throws {
        var bench = Bench()
        bench.connect()
        let refusal = #"{"msg":"nosub","id":"1","error":{"error":404,"reason":"not found","message":"x"}}"#
        #expect(bench.receive(refusal) == [.log("the server ended the subscription: not found")])
        #expect(bench.receive(refusal) == [])
        var pings = 0
        var subscribed: [Duration] = []
        for _ in 0..<100 where bench.now < .seconds(600) {
            for action in bench.handle(.woken) {
                switch action {
                case .send(DDPTexts.ping):
                    pings += 1
                    _ = bench.receive(DDPTexts.pong)
                case .send(let text):
                    subscribed.append(bench.now)
                    let id = String(subscribed.count + 1)
                    #expect(text == DDPTexts.sub(id: id))
                    _ = bench.receive(#"{"msg":"nosub","id":"\#(id)"}"#)
                case .wake(let moment): bench.now = moment
                default: Issue.record("\(action)")
                }
            }
        }
        // After 66 s, 145.2 s, then 300 s each.
        #expect(subscribed == [.seconds(66), .milliseconds(211_200), .milliseconds(511_200)])
        #expect(pings > 20)
    }

    @Test func `N-21: reports the version again after a new subscription`() throws {
        var bench = Bench()
        bench.connect(DDPTexts.added("one"), DDPTexts.ready)
        _ = bench.receive(#"{"msg":"nosub","id":"1"}"#)
        bench.now = .seconds(66)
        _ = bench.receive(#"{"msg":"pong"}"#)
        let text = DDPTexts.sub(id: "2")
        #expect(bench.handle(.woken).first == .send(text))
        #expect(bench.receive(DDPTexts.ready) == [])
        #expect(bench.receive(DDPTexts.added("one")) == [])
        #expect(bench.receive(#"{"msg":"ready","subs":["2"]}"#) == [.ready, try Self.version("one")])
    }

    @Test func `requests one wake-up at a time`() {
        var bench = Bench()
        var wakeUps = 0
        func count(_ actions: [Action]) {
            wakeUps += actions.filter { if case .wake = $0 { true } else { false } }.count
        }
        count(bench.handle(.connecting))
        count(bench.handle(.opened))
        count(bench.receive(DDPTexts.connected))
        count(bench.receive(DDPTexts.ready))
        count(bench.receive(#"{"msg":"nosub","id":"1"}"#))
        #expect(wakeUps == 1)
    }
}
