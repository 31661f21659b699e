import BundleFormats
import ArchiveSource
import BundleValues
import BundleSigning
import BundleTesting
import Testing

@Suite struct LimitTests {
    private static func payload(_ change: @escaping @Sendable ([UInt8]) throws -> [UInt8])
        -> @Sendable (TrustFeed) throws -> Void
    {
        { try $0.offer(2, payload: change) }
    }

    private static func envelope(_ change: @escaping @Sendable ([UInt8]) throws -> [UInt8])
        -> @Sendable (TrustFeed) throws -> Void
    {
        { feed in
            let envelope = ChannelFormat.envelope(feed.document(2, [try feed.release("1.1.0")]))
            feed.serve(try change(try envelope.signed(by: [feed.channel]).document))
        }
    }

    /// Returns a function that inserts `text` as the first member of a document.
    private static func inserting(_ text: String) -> @Sendable ([UInt8]) -> [UInt8] {
        { $0.prefix(1) + Array(text.utf8) + $0.dropFirst() }
    }

    private static func padded(to size: Int) -> @Sendable ([UInt8]) -> [UInt8] {
        { $0 + [UInt8](repeating: 0x20, count: size - $0.count) }
    }

    private static func nested(_ depth: Int) -> String {
        #""x":"# + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + ","
    }

    static let envelopes: [Scenario] = [
        Scenario("TUF-274: exactly 1 MiB", nil, envelope(padded(to: 1 << 20))),
        Scenario("TUF-275: 1 MiB and a byte", .manifestMalformed, envelope(padded(to: (1 << 20) + 1))),
        Scenario("TUF-276: endless", .manifestMalformed) {
            $0.server.set("/channels/stable.json", Route().with { $0.body = .endless })
        },
        Scenario("TUF-277: cut off", .networkUnavailable) {
            $0.server.set(
                "/channels/stable.json", Route([UInt8](repeating: 0x20, count: 99)).with { $0.pace = .cut(after: 9) })
        },
        Scenario("TUF-278: nothing", .manifestMalformed, envelope { _ in [] }),
        Scenario("TUF-279: a web page", .manifestMalformed, envelope { _ in Array("<html></html>".utf8) }),
        Scenario("TUF-280: bytes after its end", .manifestMalformed, envelope { $0 + [0x7B] }),
        Scenario("TUF-281: a byte order mark", .manifestMalformed, envelope { [0xEF, 0xBB, 0xBF] + $0 }),
        Scenario("TUF-282: 15 levels", nil, envelope(inserting(nested(14)))),
        Scenario("TUF-283: 20 levels", .manifestMalformed, envelope(inserting(nested(19)))),
        Scenario(
            "TUF-284: a payload twice", .manifestMalformed, envelope(inserting(#""payload":"e30=","#))),
        Scenario(
            "TUF-285: a payload twice, once in escapes", .manifestMalformed,
            envelope(inserting(#""p\u0061yload":"e30=","#))),
        Scenario(
            "TUF-286: a payload that is not base64", .manifestMalformed,
            envelope { try edited($0) { $0["payload"] = .string("e3=0") } }),
        Scenario(
            "TUF-287: signatures that are not a list", .manifestMalformed,
            envelope { try edited($0) { $0["signatures"] = .object([:]) } }),
    ]

    static let payloads: [Scenario] = [
        Scenario("TUF-288: 16 levels", nil, payload(inserting(nested(15)))),
        Scenario("TUF-289: 17 levels", .manifestMalformed, payload(inserting(nested(16)))),
        Scenario("TUF-290: 20 levels", .manifestMalformed, payload(inserting(nested(19)))),
        Scenario("TUF-291: a sequence twice", .manifestMalformed, payload(inserting(#""sequence":9,"#))),
        Scenario("TUF-292: bytes after its end", .manifestMalformed, payload { $0 + [0x7D] }),
        Scenario("TUF-293: a byte order mark", .manifestMalformed, payload { [0xEF, 0xBB, 0xBF] + $0 }),
        Scenario(
            "TUF-294: bytes that are not UTF-8", .manifestMalformed,
            payload { inserting(#""x":"?","#)($0).map { $0 == 0x3F ? 0xFF : $0 } }),
        Scenario("TUF-295: not an object", .manifestMalformed, payload { _ in Array("[]".utf8) }),
        Scenario(
            "TUF-296: sequence 0", .manifestMalformed, payload { try edited($0) { $0["sequence"] = .integer(0) } }),
        Scenario(
            "TUF-297: sequence 2.0", .manifestMalformed,
            payload { bytes in
                let text = String(decoding: bytes, as: UTF8.self)
                return Array(text.replacing(#""sequence":2"#, with: #""sequence":2.0"#).utf8)
            }),
        Scenario(
            "TUF-298: sequence 2^53", .manifestMalformed,
            payload { bytes in
                let text = String(decoding: bytes, as: UTF8.self)
                return Array(text.replacing(#""sequence":2"#, with: #""sequence":9007199254740992"#).utf8)
            }),
        Scenario(
            "TUF-299: sequence in quotes", .manifestMalformed,
            payload { try edited($0) { $0["sequence"] = .string("2") } }),
        Scenario(
            "TUF-310: paused in quotes", .manifestMalformed,
            payload { bytes in
                let text = String(decoding: bytes, as: UTF8.self)
                return Array(text.replacing(#""releases":[{"#, with: #""releases":[{"paused":"true","#).utf8)
            }),
        Scenario(
            "TUF-311: polls without a pause", .manifestMalformed,
            payload { try edited($0) { $0["poll"] = .object(["interval": .integer(0)]) } }),
    ]

    @Test(arguments: envelopes) func `rejects an invalid envelope`(_ scenario: Scenario) async throws {
        try await scenario.run()
    }

    @Test(arguments: payloads) func `rejects an invalid signed payload`(_ scenario: Scenario) async throws {
        try await scenario.run()
    }

    @Test func `TUF-300: verifies signatures before it parses the payload`() async throws {
        try await Scenario("", .keyUnknown) { feed in
            let envelope = SignedEnvelope(payloadType: ChannelFormat.payloadType, payload: Array("no JSON".utf8))
            feed.serve(try envelope.signed(by: [feed.keys[5]]).document)
        }.run()
    }

    @Test(arguments: ["", ".stable", "Stable", "a/b", "st\u{E4}ble", String(repeating: "a", count: 65)])
    func `rejects a document with an invalid channel name`(name: String) throws {
        let day = try Timestamp(parsing: "2026-01-01T00:00:00Z")
        let later = try Timestamp(parsing: "2026-02-01T00:00:00Z")
        let document = ChannelDocument(appId: nil, channel: name, sequence: 1, issuedAt: day, expires: later)
        let refusal = #expect(throws: DocumentRefusal.self) {
            try ChannelFormat.parse(ChannelFormat.envelope(document))
        }
        #expect(refusal?.problem.contains("is not a channel name") == true)
    }
}
