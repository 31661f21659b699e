import BundleCore
import ArchiveSource
import BundleValues
import BundleSigning
import BundleTesting
import Testing

/// The keys of a role, its threshold and the signing keys.
struct KeySet: Sendable {
    let keys: [Int]
    let threshold: Int
    let signatures: [Int]

    init(_ keys: [Int], _ threshold: Int, _ signatures: [Int]) {
        self.keys = keys
        self.threshold = threshold
        self.signatures = signatures
    }
}

/// A chain of roots. The last one is refused with `code`, unless it is nil.
struct RootRotation: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let roots: [KeySet]
    let code: FailureCode?

    init(_ name: String, _ roots: [KeySet], _ code: FailureCode? = nil) {
        testDescription = name
        self.roots = roots
        self.code = code
    }
}

/// The keys of a role in root 2, and the signing keys.
struct RoleRotation: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let keys: KeySet
    let code: FailureCode?

    init(_ name: String, _ keys: KeySet, _ code: FailureCode? = nil) {
        testDescription = name
        self.keys = keys
        self.code = code
    }
}

@Suite struct RotationTests {
    // The rows of TUF's conformance suite.
    static let rootRotations = [
        RootRotation("TUF-88: 1 of 1, new key", [KeySet([1], 1, [1]), KeySet([2], 1, [2, 1]), KeySet([2], 1, [2])]),
        RootRotation(
            "TUF-89: 1 of 1, new key, unused signatures",
            [KeySet([1], 1, [3, 1, 4]), KeySet([2], 1, [3, 2, 1, 4]), KeySet([2], 1, [3, 2, 4])]),
        RootRotation(
            "TUF-90: 3 of 5, other keys sign each time",
            [
                KeySet([0, 1, 2, 3, 4], 3, [0, 2, 4]), KeySet([0, 1, 2, 3, 4], 3, [0, 4, 1]),
                KeySet([0, 1, 2, 3, 4], 3, [0, 1, 3]), KeySet([0, 1, 2, 3, 4], 3, [0, 1, 3]),
            ]),
        RootRotation(
            "TUF-91: 3 of 5, one key replaced",
            [KeySet([0, 1, 2, 3, 4], 3, [0, 2, 4]), KeySet([0, 1, 3, 4, 5], 3, [0, 4, 1])]),
        RootRotation(
            "TUF-92: 3 of 5, one key replaced in two steps",
            [
                KeySet([0, 1, 2, 3, 4], 3, [0, 2, 4]), KeySet([0, 1, 3, 4, 5], 3, [0, 2, 4, 5]),
                KeySet([0, 1, 3, 4, 5], 3, [0, 4, 5]),
            ]),
        RootRotation(
            "TUF-93: 3 of 5, all keys replaced",
            [
                KeySet([0, 1, 2, 3, 4], 3, [0, 2, 4]), KeySet([5, 6, 7, 8, 9], 3, [0, 2, 4, 5, 6, 7]),
                KeySet([5, 6, 7, 8, 9], 3, [5, 6, 7]),
            ]),
        RootRotation("TUF-94: 1 of 3 to 2 of 3", [KeySet([1, 2, 3], 1, [1]), KeySet([1, 2, 3], 2, [1, 2])]),
        RootRotation(
            "TUF-95: 2 of 3 to 1 of 3",
            [KeySet([1, 2, 3], 2, [1, 2]), KeySet([1, 2, 3], 1, [1, 2]), KeySet([1, 2, 3], 1, [1])]),
        RootRotation("TUF-96: 1 of 1 to 2 of 2", [KeySet([1], 1, [1]), KeySet([1, 2], 2, [1, 2])]),
        RootRotation(
            "TUF-97: 1 of 1 to 3 of 5 and back",
            [
                KeySet([9], 1, [9]), KeySet([0, 1, 2, 3, 4], 3, [9, 0, 1, 2]), KeySet([9], 1, [2, 3, 4, 9]),
                KeySet([9], 1, [9]),
            ]),
        RootRotation(
            "TUF-98: a key is removed and comes back",
            [KeySet([1, 2], 1, [1]), KeySet([2], 1, [2]), KeySet([1, 2], 1, [2]), KeySet([1, 2], 1, [1])]),
        RootRotation(
            "TUF-99: 1 of 1, not signed with the old key", [KeySet([1], 1, [1]), KeySet([2], 1, [2, 3, 4])], .keyUnknown
        ),
        RootRotation(
            "TUF-100: 1 of 1, not signed with the new key", [KeySet([1], 1, [1]), KeySet([2], 1, [1, 3, 4])],
            .keyUnknown),
        RootRotation(
            "TUF-101: 3 of 5, not signed with 3 new keys",
            [KeySet([0, 1, 2, 3, 4], 3, [0, 2, 4]), KeySet([0, 1, 3, 4, 5], 3, [0, 2, 4])], .signatureInvalid),
        RootRotation(
            "TUF-102: 3 of 5, not signed with 3 old keys",
            [KeySet([0, 1, 2, 3, 4], 3, [0, 2, 4]), KeySet([0, 1, 3, 4, 5], 3, [0, 4, 5])], .signatureInvalid),
        RootRotation(
            "TUF-103: 1 of 3 to 2 of 3, new threshold not reached",
            [KeySet([1, 2, 3], 1, [1]), KeySet([1, 2, 3], 2, [2])], .signatureInvalid),
        RootRotation(
            "TUF-104: 2 of 3 to 1 of 3, old threshold not reached",
            [KeySet([1, 2, 3], 2, [1, 2]), KeySet([1, 2, 3], 1, [1])], .signatureInvalid),
        RootRotation(
            "TUF-105: a removed key signs the root after",
            [KeySet([1], 1, [1]), KeySet([2], 1, [1, 2]), KeySet([1], 1, [1])], .keyUnknown),
    ]

    @Test(arguments: rootRotations) func `verifies each root by the previous root keys`(_ rotation: RootRotation)
        async throws
    {
        let feed = try TrustFeed()
        func trust(_ index: Int) -> TrustRoot {
            let keys = rotation.roots[index]
            return feed.trustRoot(index + 1) {
                $0.set(.root, keys.keys.map { feed.keys[$0] }, threshold: keys.threshold)
            }
        }
        let signers = rotation.roots.map { $0.signatures.map { feed.keys[$0] } }
        let device = try Follower(feed, trusting: feed.pinned(trust(0), by: signers[0]))
        try feed.offer(1, ["1.0.0"])
        for index in rotation.roots.indices.dropFirst().dropLast() {
            feed.serve(
                try TrustRootFormat.envelope(trust(index)).signed(by: signers[index]).document, asRoot: index + 1)
        }
        try await device.installs("1.0.0")
        let last = rotation.roots.count
        let document = try TrustRootFormat.envelope(trust(last - 1)).signed(by: signers[last - 1]).document
        feed.serve(document, asRoot: last)
        try feed.offer(2, ["1.1.0"])
        guard let code = rotation.code else {
            try await device.installs("1.1.0")
            #expect(try device.memory().trust?.document == document)
            return
        }
        try await device.refuses(code)
        #expect(try device.memory().trust?.version == last - 1)
    }

    static let roleRotations = [
        RoleRotation("new key", KeySet([2], 1, [2])),
        RoleRotation("unused signatures", KeySet([1], 1, [3, 1, 4])),
        RoleRotation("not signed with the new key", KeySet([2], 1, [1, 3, 4]), .keyUnknown),
        RoleRotation(
            "3 of 5, two good ones and a removed one", KeySet([0, 1, 3, 4, 5], 3, [0, 2, 4]), .signatureInvalid),
        RoleRotation("3 of 5, one missing", KeySet([0, 1, 3, 4, 5], 3, [0, 4]), .signatureInvalid),
        RoleRotation("3 of 5, first combination", KeySet([0, 1, 2, 3, 4], 3, [0, 2, 4])),
        RoleRotation("3 of 5, second combination", KeySet([0, 1, 2, 3, 4], 3, [0, 4, 1])),
        RoleRotation("3 of 5, third combination", KeySet([0, 1, 2, 3, 4], 3, [0, 1, 3])),
        RoleRotation("3 of 5, fourth combination", KeySet([0, 1, 2, 3, 4], 3, [1, 2, 3])),
        RoleRotation("3 of 5, fifth combination", KeySet([0, 1, 2, 3, 4], 3, [2, 3, 4])),
    ]

    static let channelRotations = numbered("channel keys")
    static let releaseRotations = numbered("release keys")

    private static let first = ["channel keys": 106, "release keys": 116]

    private static func numbered(_ role: String) -> [RoleRotation] {
        roleRotations.enumerated().map { index, row in
            RoleRotation("TUF-\((first[role] ?? 0) + index): \(role), \(row.testDescription)", row.keys, row.code)
        }
    }

    private func settled(_ feed: TrustFeed, _ role: TrustRole, _ keys: KeySet) async throws -> Follower {
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        try feed.publish(2) { $0.set(role, keys.keys.map { feed.keys[$0] }, threshold: keys.threshold) }
        return device
    }

    @Test(arguments: channelRotations) func `uses the channel keys of the newest root`(_ rotation: RoleRotation)
        async throws
    {
        let feed = try TrustFeed()
        let device = try await settled(feed, .channel, rotation.keys)
        try feed.offer(2, ["1.1.0"], by: rotation.keys.signatures.map { feed.keys[$0] })
        if let code = rotation.code {
            try await device.refuses(code, learnt: true)
            #expect(try device.sequence() == 1)
        } else {
            try await device.installs("1.1.0")
        }
        #expect(try device.memory().trust?.version == 2)
    }

    @Test(arguments: releaseRotations) func `uses the release keys of the newest root`(_ rotation: RoleRotation)
        async throws
    {
        let feed = try TrustFeed()
        let device = try await settled(feed, .release, rotation.keys)
        let signers = rotation.keys.signatures.map { feed.keys[$0] }
        try feed.offer(feed.document(2, [try feed.release("1.1.0", by: signers) { $0.keyId = nil }]))
        if rotation.code != nil {
            // The first signature of a manifest has no key id, so an unknown key is reported as an invalid signature.
            try await device.refuses(.signatureInvalid, learnt: true)
            #expect(try device.sequence() == 2)
        } else {
            try await device.installs("1.1.0")
            let threshold = rotation.keys.threshold
            #expect(try device.inventory().bundles.last?.entry.identity.signers.count == threshold)
        }
    }
}
