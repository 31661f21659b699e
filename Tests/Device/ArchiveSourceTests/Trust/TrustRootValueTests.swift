import BundleFormats
import ArchiveSource
import BundleValues
import BundleSigning
import BundleTesting
import Testing

@Suite struct TrustRootValueTests {
    private let feed: TrustFeed

    init() throws { feed = try TrustFeed() }

    /// Parses a root whose payload is changed before it is signed.
    private func parsed(_ change: (inout JSONObject) throws -> Void) throws -> UnverifiedTrustRoot {
        let payload = try edited(TrustRootFormat.payload(feed.trustRoot()), change)
        let envelope = SignedEnvelope(payloadType: TrustRootFormat.payloadType, payload: payload)
        return try TrustRootFormat.parse(try envelope.signed(by: [feed.root]).document)
    }

    /// Changes the member `name` of `object`, which is an object or a list whose first entry is changed.
    private static func inside(
        _ name: String, _ object: inout JSONObject, _ change: (inout JSONObject) -> Void
    ) {
        if var inner = object[name]?.objectValue {
            change(&inner)
            object[name] = .object(inner)
        } else if var list = object[name]?.arrayValue, var first = list.first?.objectValue {
            change(&first)
            list[0] = .object(first)
            object[name] = .array(list)
        }
    }

    private static func rootRole(_ object: inout JSONObject, _ change: (inout JSONObject) -> Void) {
        inside("roles", &object) { roles in inside("root", &roles, change) }
    }

    static let refusals: [(name: String, problem: String, change: @Sendable (inout JSONObject) -> Void)] = [
        ("another schema", "schema is not 1", { $0["schema"] = .integer(2) }),
        ("version 0", "version is 0", { $0["version"] = .integer(0) }),
        (
            "65 keys", "keys has more than 64 entries",
            { $0["keys"] = .array([JSONValue](repeating: $0["keys"]?.arrayValue?.first ?? .null, count: 65)) }
        ),
        ("an application without a name", "appId is empty", { $0["appId"] = .string("") }),
        ("an end before its beginning", "expires is not later than issued", { $0["expires"] = $0["issued"] }),
        (
            "a key twice", "keys has a key twice",
            { object in
                let keys = object["keys"]?.arrayValue ?? []
                object["keys"] = .array(keys + keys.prefix(1))
            }
        ),
        ("no root role", "root is missing", { inside("roles", &$0) { $0["root"] = nil } }),
        ("no release role", "release is missing", { inside("roles", &$0) { $0["release"] = nil } }),
        (
            "more signatures than keys", "requires more signatures than it has keys",
            { rootRole(&$0) { $0["threshold"] = .integer(2) } }
        ),
        (
            "two signatures of one key", "requires more signatures than it has keys",
            {
                rootRole(&$0) { role in
                    role["threshold"] = .integer(2)
                    let ids = role["keyids"]?.arrayValue ?? []
                    role["keyids"] = .array(ids + ids)
                }
            }
        ),
        ("no signature at all", "threshold is 0", { rootRole(&$0) { $0["threshold"] = .integer(0) } }),
        (
            "a role of a missing key", "which is not among the keys",
            { rootRole(&$0) { $0["keyids"] = .array([.string(String(repeating: "a", count: 64))]) } }
        ),
        (
            "contradictory roles", "are not those that name the key",
            { inside("keys", &$0) { $0["roles"] = .array([.string("release")]) } }
        ),
        (
            "a key with another id", "keyid is not the SHA-256 of its spki",
            { inside("keys", &$0) { $0["keyid"] = .string(String(repeating: "a", count: 64)) } }
        ),
        (
            "a key of another algorithm", "algorithm is not the key's own",
            { inside("keys", &$0) { $0["algorithm"] = .string("rsa-pss") } }
        ),
    ]

    @Test(arguments: refusals.indices) func `rejects invalid values with their reason`(_ index: Int)
        throws
    {
        let (name, problem, change) = Self.refusals[index]
        let refusal = #expect(throws: DocumentRefusal.self, "\(name)") { try parsed(change) }
        #expect(refusal?.problem.contains(problem) == true, "\(name): \(refusal?.problem ?? "taken")")
    }

    @Test func `accepts a root without an application, channel role and roles of keys`() throws {
        let root = try parsed { object in
            object["appId"] = nil
            Self.inside("roles", &object) { $0["channel"] = nil }
            let keys = (object["keys"]?.arrayValue ?? []).map { key in
                var key = key.objectValue ?? [:]
                key["roles"] = nil
                return JSONValue.object(key)
            }
            object["keys"] = .array(keys)
        }
        #expect(root.claims.roles.keys.map(\.rawValue).sorted() == ["release", "root"])
    }

    @Test func `removes duplicate key ids of a role`() throws {
        let root = try parsed { object in
            Self.rootRole(&object) { role in
                let ids = role["keyids"]?.arrayValue ?? []
                role["keyids"] = .array(ids + ids)
            }
        }
        #expect(root.claims.roles[.root]?.keyIds == [feed.root.id])
    }

    @Test func `a label is read, and a device ignores an invalid one`() throws {
        func label(_ value: JSONValue) throws -> String? {
            let root = try parsed { Self.inside("keys", &$0) { $0["label"] = value } }
            return root.claims.keys[0].label
        }
        for text in ["Alice, token 2", "Zoë 🔑", String(repeating: "x", count: 64)] {
            #expect(try label(.string(text)) == text)
        }
        for text in [
            "", " Alice", "Alice ", "a\nb", "a\u{1B}[31m", "\u{202E}ecila", "a\\b", String(repeating: "x", count: 65),
        ] { #expect(try label(.string(text)) == nil, "\(text)") }
        for value in [JSONValue.integer(1), .null, .array([]), .object([:])] { #expect(try label(value) == nil) }
    }

    @Test func `a root without labels keeps its bytes`() throws {
        let text = String(decoding: TrustRootFormat.payload(feed.trustRoot()), as: UTF8.self)
        #expect(!text.contains("label"))
    }
}
