import BundleFormats
import ArchiveSource
import BundleValues
import BundleSigning
import BundleTesting
import Testing

@Suite struct ThresholdTests {
    /// Two of three keys must sign documents.
    @Sendable static func twoOfThree(_ feed: TrustFeed) -> TrustRoot {
        feed.trustRoot { $0.set(.channel, Array(feed.keys[1...3]), threshold: 2) }
    }

    private static func offer(_ feed: TrustFeed, _ signatures: (SignedEnvelope) throws -> [SignedEnvelope.Signature])
        throws
    {
        var envelope = ChannelFormat.envelope(feed.document(2, [try feed.release("1.1.0")]))
        envelope.signatures = try signatures(envelope)
        feed.serve(envelope.document)
    }

    private static func good(_ pair: SigningPair, _ envelope: SignedEnvelope) throws -> SignedEnvelope.Signature {
        SignedEnvelope.Signature(keyId: pair.id, bytes: try pair.signature(of: envelope.message))
    }

    static let documents: [Scenario] = [
        Scenario("TUF-67: two good signatures of 2 of 3", nil, trusting: twoOfThree) { feed in
            try offer(feed) { [try good(feed.keys[1], $0), try good(feed.keys[3], $0)] }
        },
        Scenario("TUF-68: one good signature of 2 of 3", .signatureInvalid, trusting: twoOfThree) { feed in
            try offer(feed) { [try good(feed.keys[1], $0)] }
        },
        Scenario("TUF-69: the same key twice counts once", .signatureInvalid, trusting: twoOfThree) { feed in
            try offer(feed) { [try good(feed.keys[1], $0), try good(feed.keys[1], $0)] }
        },
        Scenario("TUF-70: the same key, once without its name, counts once", .signatureInvalid, trusting: twoOfThree) {
            feed in
            try offer(feed) { envelope in
                let named = try good(feed.keys[1], envelope)
                return [named, SignedEnvelope.Signature(keyId: nil, bytes: named.bytes)]
            }
        },
        Scenario("TUF-71: one good and one unknown", .signatureInvalid, trusting: twoOfThree) { feed in
            try offer(feed) { [try good(feed.keys[1], $0), try good(feed.keys[7], $0)] }
        },
        Scenario("TUF-72: two good and some unknown, which are ignored", nil, trusting: twoOfThree) { feed in
            try offer(feed) { envelope in
                try [7, 1, 8, 2].map { try good(feed.keys[$0], envelope) }
                    + [SignedEnvelope.Signature(keyId: "nobody", bytes: [1])]
            }
        },
        Scenario("TUF-73: two good and a trusted key with a bad one", .signatureInvalid, trusting: twoOfThree) { feed in
            try offer(feed) { envelope in
                [
                    try good(feed.keys[1], envelope), try good(feed.keys[2], envelope),
                    SignedEnvelope.Signature(keyId: feed.keys[3].id, bytes: [UInt8](repeating: 1, count: 64)),
                ]
            }
        },
        Scenario("TUF-74: one key's signature under another's name", .signatureInvalid, trusting: twoOfThree) { feed in
            try offer(feed) { envelope in
                let mine = try good(feed.keys[1], envelope)
                return [mine, SignedEnvelope.Signature(keyId: feed.keys[2].id, bytes: mine.bytes)]
            }
        },
        Scenario("TUF-75: 64 signatures", nil, trusting: twoOfThree) { feed in
            try offer(feed) { envelope in
                let noise = try (0..<62).map { _ in try good(feed.keys[7], envelope) }
                return noise + [try good(feed.keys[1], envelope), try good(feed.keys[2], envelope)]
            }
        },
        Scenario("TUF-76: 65 signatures", .manifestMalformed, trusting: twoOfThree) { feed in
            try offer(feed) { envelope in
                let noise = try (0..<63).map { _ in try good(feed.keys[7], envelope) }
                return noise + [try good(feed.keys[1], envelope), try good(feed.keys[2], envelope)]
            }
        },
    ]

    @Test(arguments: documents) func `counts distinct valid signatures only`(_ scenario: Scenario) async throws {
        try await scenario.run()
    }

    private static func publish(_ feed: TrustFeed, _ change: (inout JSONObject) throws -> Void) throws {
        let payload = try edited(TrustRootFormat.payload(feed.trustRoot(2)), change)
        let envelope = SignedEnvelope(payloadType: TrustRootFormat.payloadType, payload: payload)
        feed.serve(try envelope.signed(by: [feed.root]).document, asRoot: 2)
    }

    private static func changeRole(_ role: String, _ feed: TrustFeed, _ change: @escaping (inout JSONObject) -> Void)
        throws
    {
        try publish(feed) { object in
            var roles = object["roles"]?.objectValue ?? [:]
            var named = roles[role]?.objectValue ?? [:]
            change(&named)
            roles[role] = .object(named)
            object["roles"] = .object(roles)
        }
    }

    static let roots: [Scenario] = [
        Scenario("TUF-77: a threshold of 0", .manifestMalformed) { feed in
            try changeRole("channel", feed) { $0["threshold"] = .integer(0) }
        },
        Scenario("TUF-78: a threshold below 0", .manifestMalformed) { feed in
            try changeRole("channel", feed) { $0["threshold"] = .integer(-1) }
        },
        Scenario("TUF-79: a threshold above the keys", .manifestMalformed) { feed in
            try changeRole("channel", feed) { $0["threshold"] = .integer(2) }
        },
        Scenario("TUF-80: a key named twice counts once towards its threshold", .manifestMalformed) { feed in
            try changeRole("channel", feed) { role in
                let ids = role["keyids"]?.arrayValue ?? []
                role["keyids"] = .array(ids + ids)
                role["threshold"] = .integer(2)
            }
        },
        Scenario("TUF-81: a role names a missing key", .manifestMalformed) { feed in
            try changeRole("channel", feed) { $0["keyids"] = .array([.string(String(repeating: "a", count: 64))]) }
        },
        Scenario("TUF-82: no release role", .manifestMalformed) { feed in
            try publish(feed) { object in
                var roles = object["roles"]?.objectValue ?? [:]
                roles["release"] = nil
                object["roles"] = .object(roles)
            }
        },
        Scenario("TUF-83: the same key under two ids", .manifestMalformed) { feed in
            try publish(feed) { object in
                let keys = object["keys"]?.arrayValue ?? []
                var copy = keys.first?.objectValue ?? [:]
                copy["keyid"] = .string(String(repeating: "a", count: 64))
                object["keys"] = .array(keys + [.object(copy)])
            }
        },
        Scenario("TUF-84: the same key twice", .manifestMalformed) { feed in
            try publish(feed) { object in
                let keys = object["keys"]?.arrayValue ?? []
                object["keys"] = .array(keys + keys.prefix(1))
            }
        },
        Scenario("TUF-85: a key's algorithm is another one", .manifestMalformed) { feed in
            try publish(feed) { object in
                var keys = object["keys"]?.arrayValue ?? []
                var key = keys[0].objectValue ?? [:]
                key["algorithm"] = .string("rsa-pss")
                keys[0] = .object(key)
                object["keys"] = .array(keys)
            }
        },
        Scenario("TUF-86: a key states a role that does not name it", .manifestMalformed) { feed in
            try publish(feed) { object in
                var keys = object["keys"]?.arrayValue ?? []
                var key = keys[0].objectValue ?? [:]
                key["roles"] = .array([.string("root"), .string("release")])
                keys[0] = .object(key)
                object["keys"] = .array(keys)
            }
        },
        Scenario("TUF-87: all keys of a role are revoked", .manifestMalformed) { feed in
            try feed.publish(2) { $0.revoked = [feed.channel.id] }
        },
    ]

    @Test(arguments: roots) func `rejects an inconsistent root`(_ scenario: Scenario) async throws {
        try await scenario.run()
    }
}
