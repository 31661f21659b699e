@testable import BundleFormats
@testable import BundleCore
import BundleValues

/// A model of a device's promised behavior, without a ledger, files or a clock.
struct DeviceModel {
    struct Client: Equatable {
        let minimumShell: Int
        let maximumShell: Int
    }

    enum Block: Equatable { case failedTwice, byHand }

    var shell = 1
    let hasSeed: Bool
    /// The seed of the shell, and the one that the store has recorded.
    var seed = 1
    var seenSeed: Int?
    var installed: [SemanticVersion: Client] = [:]
    var failures: [SemanticVersion: Int] = [:]
    var good: Set<SemanticVersion> = []
    var blocks: [SemanticVersion: Block] = [:]
    var lastKnownGood = ClientName.embedded
    /// The launch that the next verdict is about.
    var launch: ClientName?
    var verdict: Launch.Verdict?
    var isTrial = false
    /// Whether the launch failed and no client was launched since.
    var heldBack: ClientName?

    init(hasSeed: Bool) { self.hasSeed = hasSeed }

    func isUsable(_ version: SemanticVersion) -> Bool {
        guard let client = installed[version], blocks[version] == nil else { return false }
        return (client.minimumShell...client.maximumShell).contains(shell)
    }

    var usable: [SemanticVersion] { installed.keys.filter(isUsable).sorted() }

    func canRun(_ name: ClientName) -> Bool { name.archive.map(isUsable) ?? hasSeed }

    /// The client that the next launch shows; nil if none can be shown.
    var next: ClientName? {
        let newestFirst = usable.reversed().map(ClientName.archive)
        guard let heldBack else { return newestFirst.first ?? (hasSeed ? .embedded : nil) }
        let lower = usable.reversed().filter { version in
            (heldBack.archive.map { version < $0 } ?? false) && failures[version, default: 0] == 0
        }
        let good = lastKnownGood == .embedded ? [] : [lastKnownGood]
        let others = (good + lower.map(ClientName.archive) + [.embedded] + newestFirst)
            .filter { $0 != heldBack && canRun($0) }
        return others.first ?? (canRun(heldBack) ? heldBack : nil)
    }

    func isOnTrial(_ name: ClientName) -> Bool { name.archive.map { !good.contains($0) } ?? false }

    // MARK: Events

    mutating func shellStarts() {
        if hasSeed, seenSeed != seed {
            if seenSeed != nil {
                (failures, good, lastKnownGood, launch, heldBack) = ([:], [], .embedded, nil, nil)
                blocks = blocks.filter { $0.value == .byHand }
            }
            seenSeed = seed
        }
        if launch != nil, isTrial, verdict == nil { fails() }
    }

    mutating func launches(_ name: ClientName) {
        (launch, verdict, isTrial, heldBack) = (name, nil, isOnTrial(name), nil)
    }

    mutating func confirms() {
        guard let launch else { return }
        verdict = .good
        guard let version = launch.archive else {
            lastKnownGood = launch
            return
        }
        failures[version] = nil
        good.insert(version)
        if blocks[version] == nil { lastKnownGood = launch }
    }

    mutating func fails() {
        guard let launch else { return }
        verdict = .faulty
        heldBack = launch
        guard let version = launch.archive else { return }
        failures[version, default: 0] += 1
        good.remove(version)
        if blocks[version] == .byHand {
            heldBack = nil
        } else if failures[version, default: 0] >= 2 {
            blocks[version] = .failedTwice
        }
        loses(version)
    }

    mutating func rollsBack(to target: ClientName) {
        for version in installed.keys where target.archive.map({ version > $0 }) ?? true {
            blocks[version] = .byHand
            loses(version)
        }
        if verdict == .faulty { launch = nil }
        if verdict == nil, launch != target { isTrial = false }
        heldBack = nil
    }

    mutating func unblocks(_ version: SemanticVersion) {
        guard blocks.removeValue(forKey: version) != nil else { return }
        failures[version] = nil
        if launch == .archive(version), verdict == .faulty { (launch, heldBack) = (nil, nil) }
    }

    mutating func removes(_ version: SemanticVersion) {
        installed[version] = nil
        failures[version] = nil
        good.remove(version)
        if launch == .archive(version) { (launch, heldBack) = (nil, nil) }
        loses(version)
    }

    /// Models the loss of the ledger: only the clients in the store remain.
    mutating func forgetsAll() {
        var fresh = DeviceModel(hasSeed: hasSeed)
        (fresh.shell, fresh.seed, fresh.installed) = (shell, seed, installed)
        self = fresh
    }

    /// Any client that was good before may become the fallback; the walk reads from the ledger which one.
    var isFallbackLost = false

    private mutating func loses(_ version: SemanticVersion) {
        if lastKnownGood == .archive(version) { isFallbackLost = true }
    }

    var fallbacks: [ClientName] {
        let candidates = good.filter { installed[$0] != nil && blocks[$0] == nil }.map(ClientName.archive)
        return candidates.isEmpty ? [.embedded] : candidates
    }
}

extension ClientName {
    /// Returns an installed archive. The walks have no other clients.
    static func archive(_ version: SemanticVersion) -> ClientName { .installed(.archive(version)) }

    /// Returns the version of an installed archive; nil for the seed.
    var archive: SemanticVersion? { version?.semantic }
}
