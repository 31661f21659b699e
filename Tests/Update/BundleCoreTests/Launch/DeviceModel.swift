@testable import BundleCore
import BundleValues

/// What a device has promised to do next, told by the promises alone: no ledger, no files, no clock.
struct DeviceModel {
    struct Client: Equatable {
        let minimumShell: Int
        let maximumShell: Int
    }

    enum Block: Equatable { case failedTwice, byHand }

    var shell = 1
    let hasSeed: Bool
    /// The seed that lies in the shell, and the one that the store has seen.
    var seed = 1
    var seenSeed: Int?
    var installed: [SemanticVersion: Client] = [:]
    var failures: [SemanticVersion: Int] = [:]
    var good: Set<SemanticVersion> = []
    var blocks: [SemanticVersion: Block] = [:]
    var lastKnownGood = ClientName.embedded
    /// The launch that a verdict may be about.
    var launch: ClientName?
    var verdict: Launch.Verdict?
    var isTrial = false
    /// Its launch failed, and nothing has been launched since.
    var heldBack: ClientName?

    init(hasSeed: Bool) { self.hasSeed = hasSeed }

    func isUsable(_ version: SemanticVersion) -> Bool {
        guard let client = installed[version], blocks[version] == nil else { return false }
        return (client.minimumShell...client.maximumShell).contains(shell)
    }

    var usable: [SemanticVersion] { installed.keys.filter(isUsable).sorted() }

    func canRun(_ name: ClientName) -> Bool { name.archive.map(isUsable) ?? hasSeed }

    /// What the next launch shows; nil where nothing can be shown.
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

    /// The ledger was lost: all that is known is what lies in the store.
    mutating func forgetsAll() {
        var fresh = DeviceModel(hasSeed: hasSeed)
        (fresh.shell, fresh.seed, fresh.installed) = (shell, seed, installed)
        self = fresh
    }

    /// Whatever was good before may take its place; which one the walk asks the ledger.
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
    /// An installed archive; the walks know no other clients.
    static func archive(_ version: SemanticVersion) -> ClientName { .installed(.archive(version)) }

    /// The version of an installed archive; nil for the seed.
    var archive: SemanticVersion? { version?.semantic }
}
