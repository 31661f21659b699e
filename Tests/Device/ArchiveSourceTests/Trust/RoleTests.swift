import BundleCore
import ArchiveSource
import BundleValues
import BundleSigning
import BundleTesting
import Testing

@Suite struct RoleTests {
    private static func seal(
        _ feed: TrustFeed, _ change: (SignedEnvelope) throws -> SignedEnvelope
    ) throws {
        feed.serve(try change(ChannelFormat.envelope(feed.document(2, [try feed.release("1.1.0")]))).document)
    }

    private static func signature(_ pair: SigningPair, over bytes: [UInt8]) throws -> SignedEnvelope.Signature {
        SignedEnvelope.Signature(keyId: pair.id, bytes: try pair.signature(of: bytes))
    }

    static let wrongRoles: [Scenario] = [
        Scenario("TUF-39: a document signed by the channel key", nil) { try $0.offer(2, ["1.1.0"]) },
        Scenario("TUF-40: a document signed by the release key", .keyUnknown) {
            try $0.offer(2, ["1.1.0"], by: [$0.release])
        },
        Scenario("TUF-41: a document signed by the root key", .keyUnknown) {
            try $0.offer(2, ["1.1.0"], by: [$0.root])
        },
        Scenario("TUF-42: a document signed by an unknown key", .keyUnknown) {
            try $0.offer(2, ["1.1.0"], by: [$0.keys[5]])
        },
        Scenario("TUF-43: a document without signatures", .signatureInvalid) {
            try $0.offer(2, ["1.1.0"], by: [])
        },
        Scenario("TUF-44: a signature without a key id by the channel key", nil) { feed in
            try seal(feed) { envelope in
                var envelope = envelope
                envelope.signatures = [
                    SignedEnvelope.Signature(keyId: nil, bytes: try feed.channel.signature(of: envelope.message))
                ]
                return envelope
            }
        },
        Scenario("TUF-45: a signature without a key id by an unknown key", .signatureInvalid) { feed in
            try seal(feed) { envelope in
                var envelope = envelope
                envelope.signatures = [
                    SignedEnvelope.Signature(keyId: nil, bytes: try feed.keys[5].signature(of: envelope.message))
                ]
                return envelope
            }
        },
        Scenario("TUF-46: a signature over the payload alone", .signatureInvalid) { feed in
            try seal(feed) { envelope in
                var envelope = envelope
                envelope.signatures = [try signature(feed.channel, over: envelope.payload)]
                return envelope
            }
        },
        Scenario("TUF-47: a signature over the payload as another type", .signatureInvalid) { feed in
            try seal(feed) { envelope in
                let other = SignedEnvelope(payloadType: TrustRootFormat.payloadType, payload: envelope.payload)
                var envelope = envelope
                envelope.signatures = [try signature(feed.channel, over: other.message)]
                return envelope
            }
        },
        Scenario("TUF-48: a trust root instead of the document", .manifestMalformed) { feed in
            let root = try TrustRootFormat.envelope(feed.trustRoot()).signed(by: [feed.root, feed.channel])
            feed.serve(root.document)
        },
        Scenario("TUF-49: a flat manifest instead of the document", .manifestMalformed) { feed in
            feed.serve(try feed.signed(try feed.manifest("1.1.0"), by: [feed.release, feed.channel]))
        },
        Scenario("TUF-50: the document instead of the next root", .manifestMalformed) { feed in
            let document = ChannelFormat.envelope(feed.document(2, [try feed.release("1.1.0")]))
            feed.serve(try document.signed(by: [feed.root, feed.channel]).document, asRoot: 2)
        },
        Scenario("TUF-51: a root's payload in an envelope of the channel's type", .manifestMalformed) { feed in
            let envelope = SignedEnvelope(
                payloadType: ChannelFormat.payloadType, payload: TrustRootFormat.payload(feed.trustRoot()))
            feed.serve(try envelope.signed(by: [feed.channel]).document)
        },
        Scenario("TUF-52: a root signed by the release key", .keyUnknown) { try $0.publish(2, by: [$0.release]) },
        Scenario("TUF-53: a root signed by the channel key", .keyUnknown) { try $0.publish(2, by: [$0.channel]) },
        Scenario("TUF-54: a root signed by an unknown key", .keyUnknown) { try $0.publish(2, by: [$0.keys[5]]) },
        Scenario("TUF-55: a changed payload with the old signatures", .signatureInvalid) { feed in
            try seal(feed) { envelope in
                let signed = try envelope.signed(by: [feed.channel])
                let changed = try edited(envelope.payload) { $0["sequence"] = .integer(3) }
                return SignedEnvelope(
                    payloadType: envelope.payloadType, payload: changed, signatures: signed.signatures)
            }
        },
    ]

    @Test(arguments: wrongRoles) func `accepts documents only from the keys of their role`(_ scenario: Scenario)
        async throws
    {
        try await scenario.run()
    }

    /// The document is valid and stored; its release is not valid.
    static let wrongReleases: [Scenario] = [
        Scenario("TUF-56: a release signed by the channel key only", .keyUnknown) { feed in
            try feed.offer(feed.document(2, [try feed.release("1.1.0", by: [feed.channel])]))
        },
        Scenario("TUF-57: a release signed by the root key only", .keyUnknown) { feed in
            try feed.offer(feed.document(2, [try feed.release("1.1.0", by: [feed.root])]))
        },
        Scenario("TUF-58: a release with a damaged signature", .signatureInvalid) { feed in
            let good = try feed.release("1.1.0").manifest.document
            let bytes = try edited(JSONWriter.bytes(of: good)) {
                $0["signature"] = .string(Base64.encode([UInt8](repeating: 9, count: 64)))
            }
            try feed.offer(feed.document(2, [ChannelDocument.Release(try ManifestFormat.parse(bytes))]))
        },
        Scenario("TUF-59: a release with the signature of another version", .signatureInvalid) { feed in
            let other = try feed.release("1.0.0").manifest.document.objectValue?["signature"]
            let bytes = try edited(JSONWriter.bytes(of: try feed.release("1.1.0").manifest.document)) {
                $0["signature"] = other
            }
            try feed.offer(feed.document(2, [ChannelDocument.Release(try ManifestFormat.parse(bytes))]))
        },
    ]

    @Test(arguments: wrongReleases) func `rejects a release without a valid signature of a release key`(
        _ scenario: Scenario
    ) async throws {
        try await scenario.run(learnt: true)
    }

    @Test func `TUF-60: rejects a document with an unsigned release`() async throws {
        try await Scenario("", .manifestMalformed) { feed in
            try feed.offer(2) { payload in
                try edited(payload) { document in
                    let releases = (document["releases"]?.arrayValue ?? []).map { release in
                        var release = release.objectValue ?? [:]
                        release["signature"] = nil
                        return JSONValue.object(release)
                    }
                    document["releases"] = .array(releases)
                }
            }
        }.run()
    }

    @Test func `TUF-61: installs a valid release below one with an invalid signature`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        try feed.offer(
            feed.document(2, [try feed.release("1.2.0", by: [feed.channel]), try feed.release("1.1.0")]))
        try await device.installs("1.1.0")
        // The remaining invalid release is reported as an error.
        try await device.refuses(.keyUnknown)
        try device.runs("v1.1.0")
    }

    @Test func `TUF-62: rejects a root signed by a key with two other roles`() async throws {
        let feed = try TrustFeed()
        let anchor = try feed.pinned(
            feed.trustRoot {
                $0.set(.release, [feed.keys[1]])
                $0.set(.channel, [feed.keys[1]])
            })
        let device = try Follower(feed, trusting: anchor)
        try feed.offer(feed.document(1, [try feed.release("1.0.0", by: [feed.keys[1]])]), by: [feed.keys[1]])
        try await device.installs("1.0.0")
        try feed.publish(2, by: [feed.keys[1]])
        try await device.refuses(.keyUnknown)
    }

    @Test func `TUF-63: accepts documents from release keys if there are no channel keys`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed, trusting: feed.pinned(feed.trustRoot { $0.roles[.channel] = nil }))
        try feed.offer(1, ["1.0.0"], by: [feed.release])
        try await device.installs("1.0.0")
        try feed.offer(2, ["1.1.0"], by: [feed.channel])
        try await device.refuses(.keyUnknown)
    }

    @Test(arguments: [
        ("TUF-64: Ed25519", KeyAlgorithm.ed25519), ("TUF-65: ECDSA", .ecdsaP256), ("TUF-66: RSA-PSS", .rsaPSS),
    ])
    func `accepts every signature scheme for every document`(name: String, algorithm: KeyAlgorithm) async throws {
        let feed = try TrustFeed()
        let pair = try SigningPair(algorithm)
        let trust = feed.trustRoot { trust in
            for role in TrustRole.allCases { trust.set(role, [pair]) }
        }
        let device = try Follower(feed, trusting: feed.pinned(trust, by: [pair]))
        try feed.publish(2, by: [pair]) { trust in
            for role in TrustRole.allCases { trust.set(role, [pair]) }
        }
        try feed.offer(feed.document(1, [try feed.release("1.0.0", by: [pair])]), by: [pair])
        try await device.installs("1.0.0")
        #expect(try device.memory().trust?.version == 2)
    }
}
