import BundleDisk
import BundleSigning
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

@testable import BundleFormats
@testable import ArchiveSource
@testable import BundleCore
@testable import BundlePublish

/// Publishers with and without recorded state, and a vandal without a key, work on one feed: no device ever installs
/// a release that was recalled for it.
/// `WALK_STEPS=10000` runs more steps, and `WALK_SEED` changes them.
@Suite("Channel walk", .ownThread) struct ChannelWalkTests {
    private static func number(_ variable: String) -> Int? { getenv(variable).flatMap { Int(String(cString: $0)) } }

    @Test func `no device installs a release that is recalled for it, under random acts of publishers and an attacker`()
        throws
    {
        let walk = try ChannelWalk(seed: UInt64(Self.number("WALK_SEED") ?? 1))
        let steps = Self.number("WALK_STEPS") ?? 200
        for step in 1...steps { try walk.step(step) }
        #expect(walk.violations == [], "seed \(walk.seed)")
        #expect(walk.counts.edits > 0 && walk.counts.published > 0 && walk.counts.taken > 0, "\(walk.counts)")
    }
}

private final class ChannelWalk {
    /// A device as the test models it: the releases that it was offered, not those that it stored.
    private struct Device {
        let id: String
        let channel: String
        var inventory = Inventory(path: "", ledger: Ledger(), bundles: [])
        /// The last accepted channel file that recalled a version.
        var recalledAt: [SemanticVersion: Int] = [:]
    }

    let seed: UInt64
    private(set) var violations: [String] = []
    private(set) var counts = (edits: 0, published: 0, refusals: 0, taken: 0, recalled: 0)
    private let workspace: Workspace
    private var random: SeededGenerator
    private var devices: [Device]
    private let names = ["stable", "beta"]
    /// Every channel file that was ever in the feed, without damaged ones.
    private var seen: [String: [[UInt8]]] = [:]
    /// The highest sequence at which an operator undid the recall of a version by name.
    private var reinstatedAt: [String: [SemanticVersion: Int]] = [:]
    private var recalled: [String: [SemanticVersion]] = [:]
    private var newest = 0

    init(seed: UInt64) throws {
        self.seed = seed
        random = SeededGenerator(seed: seed)
        workspace = try Workspace()
        devices = (0..<6).map { Device(id: "device-\($0)", channel: $0 < 4 ? "stable" : "beta") }
        for name in names {
            try workspace.put(workspace.document("1.0.0", name: name))
            note(name)
        }
    }

    private func roll(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }

    private func path(_ name: String) -> String { "channels/\(name).json" }

    private func read(_ path: String) throws -> [UInt8]? {
        try workspace.location.read(path, maximumBytes: 1 << 21)?.bytes
    }

    private func note(_ name: String) {
        guard let bytes = try? read(path(name)), seen[name]?.last != bytes,
            (try? ChannelFormat.envelope(parsing: bytes)) != nil
        else { return }
        seen[name, default: []].append(bytes)
    }

    func step(_ number: Int) throws {
        let clock = workspace.start.adding(.seconds(number))
        switch roll(10) {
        case 0...4: try edit(clock)
        case 5: try vandalize()
        default: try poll(roll(devices.count), clock)
        }
        for name in names { note(name) }
    }

    // MARK: Publishers

    private func edit(_ clock: Timestamp) throws {
        let (name, publisher) = (names[roll(2)], roll(3))
        var terms = ChannelTerms(signers: [workspace.channel], clock: clock)
        // Two publishers record their signatures, each on its own machine; the third does not.
        if publisher < 2 { terms.memory = PublisherMemory(workspace.folder.file("state-\(publisher)")) }
        terms.isFeedRestored = roll(12) == 0
        let flat = try read("manifest.json")
        do {
            try edit(name, terms)
            counts.edits += 1
        } catch {
            counts.refusals += 1
            let code = UpdateFailure(error).code
            // An operator restores the channel after the error about an older file.
            if code == .rollbackAttempt, roll(2) == 0 {
                terms.isFeedRestored = true
                _ = try? ChannelEditor(feed: workspace.location, terms).restore(name, to: nil)
            }
            if ![.rollbackAttempt, .versionBlocked, .configInvalid, .manifestMalformed].contains(code) {
                violations.append("an edit of \(name) failed: \(error)")
            }
        }
        if let now = try read("manifest.json"), now != flat { try checkFlat(now) }
    }

    /// Devices without a channel are offered this version from now on.
    private func checkFlat(_ bytes: [UInt8]) throws {
        let version = try ManifestFormat.parse(bytes).claims.version
        let document = try ChannelFormat.parse(ChannelFormat.envelope(parsing: read(path("stable")) ?? [])).claims
        if document.recalled.contains(where: { $0.version == version }) {
            violations.append("manifest.json offers \(version), which stable recalls")
        }
    }

    private func edit(_ name: String, _ terms: ChannelTerms) throws {
        let editor = ChannelEditor(feed: workspace.location, terms)
        let versions = try listed(name)
        let version = versions.isEmpty ? try workspace.version("1.0.0") : versions[roll(versions.count)]
        switch roll(12) {
        case 0...2: try publish(name, terms)
        case 3...4:
            _ = try editor.apply(.recall(version, reason: "step"), to: name)
            recalled[name, default: []].append(version)
        case 5:
            guard let version = recalled[name]?.randomElement(using: &random) else { return }
            let document = try editor.apply(.reinstate(version), to: name).document
            if document.reinstated.contains(.init(version: version, sequence: document.sequence)) {
                // A publisher without a memory may undo it in an older file, too.
                let before = reinstatedAt[name]?[version] ?? 0
                reinstatedAt[name, default: [:]][version] = max(before, document.sequence)
            }
        case 6: _ = try editor.apply(.pause(version), to: name)
        case 7: _ = try editor.apply(.resume(version), to: name)
        case 8: _ = try editor.prune(name, keeping: 3)
        case 9:
            let copies = try ChannelHistory.sequences(of: name, in: workspace.location)
            _ = try editor.restore(name, to: roll(2) == 0 || copies.isEmpty ? nil : copies[roll(copies.count)])
        case 10:
            _ = try editor.promote(version, from: name, to: name == "beta" ? "stable" : "beta", rollout: nil)
        default: _ = try editor.apply(.renew, to: name)
        }
    }

    /// The versions that the feed lists; empty if it cannot be read.
    private func listed(_ name: String) throws -> [SemanticVersion] {
        guard let bytes = try read(path(name)), let envelope = try? ChannelFormat.envelope(parsing: bytes),
            let document = try? ChannelFormat.parse(envelope).claims
        else { return [] }
        return document.releases.map(\.version)
    }

    private func publish(_ name: String, _ terms: ChannelTerms) throws {
        newest += 1
        let manifest = try workspace.manifest("1.\(newest).0")
        // One value for all of it: each has its own lock of the feed.
        let location = workspace.location
        let publication = ChannelPublication(
            ChannelPlan(name, rollout: nil, terms: terms), in: location, appId: "com.example.kiosk")
        _ = try location.create(
            "releases/v1.\(newest).0/manifest.json", with: .bytes(JSONWriter.bytes(of: manifest.document)))
        _ = try location.change(FeedWait(.zero), channels: [name], draft: { nil as Void? }) { _ in
            try publication.map { try $0.put($0.prepare(manifest, at: "releases/v1.\(newest).0/client.tar.zst")) }
        }
        counts.published += 1
    }

    // MARK: The vandal

    /// Restores, exchanges, damages and removes files, like an attacker without a key.
    private func vandalize() throws {
        let name = names[roll(2)]
        let copies = try ChannelHistory.sequences(of: name, in: workspace.location)
        switch roll(9) {
        case 0...3:
            guard let old = seen[name]?.suffix(40).randomElement(using: &random) else { return }
            try workspace.folder.write(old, to: "feed/\(path(name))")
            if roll(2) == 0 {
                let sequence = try ChannelFormat.document(in: old).sequence
                for copy in copies where copy > sequence {
                    try workspace.location.remove(ChannelWriter.copyPath(of: name, sequence: copy))
                }
            }
        case 4:
            guard let copy = copies.randomElement(using: &random) else { return }
            try workspace.location.remove(ChannelWriter.copyPath(of: name, sequence: copy))
        case 5:
            guard let copy = copies.randomElement(using: &random), let other = seen[name]?.randomElement(using: &random)
            else { return }
            try workspace.folder.write(other, to: "feed/\(ChannelWriter.copyPath(of: name, sequence: copy))")
        case 6:
            guard let other = try read(path(name == "beta" ? "stable" : "beta")) else { return }
            try workspace.folder.write(other, to: "feed/\(path(name))")
        case 7: try workspace.location.remove(roll(2) == 0 ? path(name) : "manifest.json")
        default: try workspace.folder.write([0x7B], to: "feed/\(path(name))")
        }
        // Most damage is repaired, otherwise the walk would stop.
        if try listed(name).isEmpty, roll(3) > 0, let last = seen[name]?.last {
            try workspace.folder.write(last, to: "feed/\(path(name))")
        }
    }

    // MARK: Devices

    private func poll(_ index: Int, _ clock: Timestamp) throws {
        let device = devices[index]
        guard let bytes = try read(path(device.channel)) else { return }
        let shell = try workspace.version("1.0.0")
        let keys = TrustedKeys([workspace.channel.publicKey, workspace.release.publicKey])
        let request = OfferRequest(inventory: device.inventory, shell: shell, appId: "com.example.kiosk")
        guard let envelope = try? ChannelFormat.envelope(parsing: bytes),
            let offer = try? FeedPoll(.keys(keys), request, clock: clock).offer(
                of: envelope, channel: device.channel, deviceId: .init(given: device.id))
        else { return }
        let document = try ChannelFormat.parse(envelope).claims
        for recall in document.recalled {
            devices[index].recalledAt[recall.version] = max(device.recalledAt[recall.version] ?? 0, document.sequence)
        }
        counts.recalled += document.recalled.count
        if let news = offer.feed { devices[index].inventory = device.inventory.recording(news) }
        let decision = offer.decide(devices[index].inventory, shell: shell, appId: "com.example.kiosk")
        guard case .install = decision.verdict, let version = offer.clientVersion.semantic else { return }
        counts.taken += 1
        guard let sequence = devices[index].recalledAt[version] else { return }
        if reinstatedAt[device.channel]?[version] ?? 0 > sequence { return }
        violations.append(
            "\(device.id) takes \(version) by sequence \(document.sequence) of \(device.channel), recalled at \(sequence)"
        )
    }
}
