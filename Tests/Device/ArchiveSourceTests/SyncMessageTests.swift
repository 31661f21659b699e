import BundleFormats
import ArchiveSource
import BundleTesting
import Testing

struct SyncMessageTests {
    @Test(arguments: [
        (#"{"type":"release","channel":"stable","sequence":17}"#, SyncMessage.release(channel: "stable", sequence: 17)),
        (
            #"{"type":"release","channel":"stable","sequence":17,"urgent":true}"#,
            .release(channel: "stable", sequence: 17, isUrgent: true)
        ),
        (
            #" {"sequence":9007199254740991,"x":[{}],"channel":"a.b-c_9","type":"release"}"#,
            .release(channel: "a.b-c_9", sequence: 9_007_199_254_740_991)
        ),
        (#"{"type":"hello","version":1}"#, .hello(version: 1)),
        (#"{"type":"hello","version":2,"name":"host"}"#, .hello(version: 2)),
        (#"{"type":"weather","channel":7}"#, .unknown(type: "weather")),
        (#"{"type":""}"#, .unknown(type: "")),
    ])
    func `parses valid messages`(_ text: String, _ message: SyncMessage) throws {
        #expect(try SyncMessage(parsing: text) == message)
        #expect(try SyncMessage(parsing: message.text) == message)
    }

    @Test(arguments: [
        "", "release", "[]", "{}", "null", #"{"type":1}"#, #"{"type":null}"#, #"{"type":"release"}"#,
        #"{"type":"release","channel":"stable"}"#, #"{"type":"release","channel":"stable","sequence":0}"#,
        #"{"type":"release","channel":"stable","sequence":-1}"#,
        #"{"type":"release","channel":"stable","sequence":1.5}"#,
        #"{"type":"release","channel":"stable","sequence":"1"}"#,
        #"{"type":"release","channel":"stable","sequence":9007199254740992}"#,
        #"{"type":"release","channel":"../stable","sequence":1}"#, #"{"type":"release","channel":"","sequence":1}"#,
        #"{"type":"release","channel":"stable","sequence":1,"sequence":2}"#, #"{"type":"hello"}"#,
        #"{"type":"hello","version":-1}"#, #"{"type":"release","channel":"stable","sequence":1}x"#,
        #"{"type":"\#(String(repeating: "a", count: 65))"}"#,
        #"{"type":"x","y":"\#(String(repeating: "a", count: 4096))"}"#,
        #"{"type":"x","y":\#(String(repeating: "[", count: 40))"#,
    ])
    func `rejects invalid messages`(_ text: String) {
        #expect(throws: DocumentRefusal.self) { try SyncMessage(parsing: text) }
    }

    @Test func `parses random text without a trap`() {
        var generator = SeededGenerator(seed: 4)
        let pieces = [
            "{", "}", "\"", "type", "release", "hello", "channel", "sequence", ":", ",", "1", "-", "e9", "[", "]",
            "\\u", "d800",
            "\u{0}", "😀", " ", "null", "\"type\":\"release\"", "\"sequence\":",
        ]
        for _ in 0..<20_000 {
            let text = (0..<Int.random(in: 0...12, using: &generator)).map { _ in
                pieces.randomElement(using: &generator) ?? ""
            }.joined()
            if let message = try? SyncMessage(parsing: text) {
                #expect((try? SyncMessage(parsing: message.text)) == message)
            }
        }
    }
}
