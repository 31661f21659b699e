import BundleDisk
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

/// Runs random events on devices and compares them with `DeviceModel` after every step.
@Suite(.ownThread) struct RandomWalkTests {
    /// `WALK_STEPS=2000 swift test --filter RandomWalkTests` runs longer walks.
    private static let steps = getenv("WALK_STEPS").flatMap { Int(String(cString: $0)) } ?? 200

    @Test(arguments: [1, 2, 3, 24, 39, 5] as [UInt64])
    func `a device keeps its promises through random events`(seed: UInt64) async throws {
        var walk = try DeviceWalk(seed: seed)
        for _ in 0..<Self.steps { try await walk.step() }
        print("random walk \(seed): \(walk.summary)")
        // A walk without launches and blocks would test nothing.
        #expect(walk.done["launch", default: 0] > Self.steps / 10)
        #expect(walk.done["with a block", default: 0] > Self.steps / 40)
    }
}

struct DeviceWalk {
    private let bench: LaunchBench
    private let seed: UInt64
    private var generator: SeededGenerator
    private var model: DeviceModel
    private var launcher: Launcher?
    private var last: Launched?
    private var number = 0
    private var trail: [String] = []
    var done: [String: Int] = [:]

    var summary: String { done.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ") }

    init(seed: UInt64) throws {
        self.seed = seed
        bench = try LaunchBench()
        _ = try bench.open()
        generator = SeededGenerator(seed: seed)
        // Every third device has no seed.
        model = DeviceModel(hasSeed: seed % 3 != 0)
    }

    private var here: Comment { "seed \(seed), step \(number): \(trail.suffix(8).joined(separator: "; "))" }

    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

    private mutating func note(_ what: String, _ detail: String = "") {
        done[what, default: 0] += 1
        trail.append(detail.isEmpty ? what : "\(what) \(detail)")
    }

    // MARK: Steps

    mutating func step() async throws {
        number += 1
        let seen = model.seenSeed
        let before = try standings()
        switch Int.random(in: 0..<100, using: &generator) {
        case 0..<20: try await install()
        case 20..<48: try launch()
        case 48..<60: try confirm()
        case 60..<70: try fail()
        case 70..<74: end()
        case 74..<80: try await collect()
        case 80..<85: try rollBack()
        case 85..<90: try unblock()
        case 90..<92: changeSeed()
        case 92..<94: changeShell()
        case 94..<96: try await removeFolder()
        default: try await damage()
        }
        // A new seed resets all starts.
        try check(seen == model.seenSeed ? before : [:])
        if model.blocks.values.contains(.failedTwice) { done["with a block", default: 0] += 1 }
    }

    /// Returns the offer of a version, whose shells depend on its number, so that it is always the same client.
    private func offer(_ minor: Int, _ patch: Int) throws -> MemoryOffer {
        try MemoryOffer(
            "1.\(minor).\(patch)", minimumShell: patch == 3 ? "2.0.0" : "1.0.0",
            maximumShell: patch == 4 ? "2.0.0" : "3.0.0")
    }

    private var top: SemanticVersion? { (Array(model.installed.keys) + model.blocks.keys).max() }

    private mutating func install() async throws {
        let minor = (top?.description.split(separator: ".").dropFirst().first).flatMap { Int($0) } ?? 0
        let way = Int.random(in: 0..<10, using: &generator)
        let wanted = way < 6 ? minor + 1 : way < 8 ? minor : Int.random(in: 0...minor, using: &generator)
        let offer = try offer(wanted, Int.random(in: 0...4, using: &generator))
        let keep = Int.random(in: 1...4, using: &generator)
        note("install", "\(offer.version) keeping \(keep)")
        let shell: SemanticVersion = try Sample.version("\(model.shell).0.0")
        let newest = model.usable.last
        do {
            let outcome = try await bench.install(offer, shell: shell.description, keep: keep)
            if case .installed = outcome {
                #expect(model.blocks[offer.version] == nil && newest.map { offer.version > $0 } ?? true, here)
                model.installed[offer.version] = DeviceModel.Client(
                    minimumShell: offer.shells.minimum.description == "2.0.0" ? 2 : 1,
                    maximumShell: offer.shells.maximum?.description == "2.0.0" ? 2 : 3)
            } else {
                #expect(newest.map { offer.version <= $0 } ?? false, here)
            }
            // Retention never removes the launched, good and next clients.
            let names = [model.launch, model.lastKnownGood, model.next]
            try forgetCollected(protecting: Set(names.compactMap { $0?.archive }))
            let ledger = try bench.ledger()
            #expect((ledger.pending ?? ledger.current) == model.next ?? .embedded, here)
            if case .installed = outcome { #expect(ledger.launch != nil || ledger.pending == nil, here) }
        } catch let failure as UpdateFailure {
            switch failure.code {
            case .versionBlocked: #expect(model.blocks[offer.version] != nil, here)
            case .incompatibleShell: #expect(offer.shells.compatibility(with: shell) != .compatible, here)
            default: Issue.record("\(failure): \(here)")
            }
        }
    }

    private mutating func launch() throws {
        launcher = nil
        note("launch")
        let launcher = try startShell()
        let next = model.next
        guard let next else {
            let failure = #expect(throws: UpdateFailure.self, here) { try launcher.launch() }
            let hasBlocked = model.installed.keys.contains { model.blocks[$0] != nil }
            #expect(failure?.code == (hasBlocked ? .versionBlocked : .configInvalid), here)
            return
        }
        let launched = try launcher.launch()
        trail.append("showed \(launched.name)")
        #expect(launched.name == next, here)
        #expect(launched.isTrial == model.isOnTrial(next), here)
        let title = next.archive.map { "client \($0)" } ?? "seed \(model.seed)"
        #expect(try launched.page.contains(title), here)
        #expect(try hasShim(launched.page), here)
        #expect(try launched.prepared.client.root.directory.kind(of: "assets") != nil, here)
        // The state must be durable before the call returns.
        let written = try #require(try bench.ledger().launch, here)
        #expect(written.name == next && written.verdict == nil && written.isTrial == launched.isTrial, here)
        #expect(try launched.token.digest() == written.tokenSha256, here)
        #expect(try bench.ledger().current == next, here)
        model.launches(next)
        last = launched
        if chance(50) {
            self.launcher = launcher
            let failure = #expect(throws: UpdateFailure.self, here) { try bench.launcher(device()) }
            #expect(failure?.code == .storeLocked, here)
        }
    }

    private func device() throws -> Launcher.LaunchDevice {
        try bench.device(
            shell: "\(model.shell).0.0", seed: model.hasSeed ? try bench.seed("seed \(model.seed)") : nil)
    }

    private mutating func startShell() throws -> Launcher {
        let launcher = try bench.launcher(device())
        model.shellStarts()
        try adoptFallback()
        return launcher
    }

    /// Gives a verdict on the last known launch, sometimes with a wrong token or version.
    private mutating func confirm() throws {
        guard let last else { return }
        let (name, token, isRight) = try shown(last)
        note("confirm", "\(name)\(isRight ? "" : " wrongly")")
        do {
            let wasConfirmed = try bench.verdicts().confirm(name, token)
            #expect(isRight && model.launch == name && model.verdict != .faulty, here)
            #expect(wasConfirmed == (model.verdict == .good), here)
            if !wasConfirmed { model.confirms() }
        } catch let failure as UpdateFailure {
            let expected: FailureCode? =
                !isRight || model.launch != name ? .versionMismatch : model.verdict == .faulty ? .healthFailed : nil
            #expect(failure.code == expected, here)
        }
    }

    private mutating func fail() throws {
        guard let last else { return }
        let (name, token, isRight) = try shown(last)
        note("fail", "\(name)\(isRight ? "" : " wrongly")")
        do {
            let fall = try bench.verdicts().fail(name, token, StartFailure(.reported, detail: "white", at: .now))
            #expect(isRight && model.launch == name && model.verdict != .good, here)
            #expect(fall.hadFailed == (model.verdict == .faulty), here)
            if !fall.hadFailed { model.fails() }
            try adoptFallback()
            #expect(fall.failures == name.archive.flatMap { model.failures[$0] } ?? 0, here)
            #expect((fall.block != nil) == (name.archive.map { model.blocks[$0] != nil } ?? false), here)
            // The result is for the shell that launched last.
            if try bench.ledger().shell?.description == "\(model.shell).0.0" {
                #expect(fall.next?.name == model.next, here)
            }
        } catch let failure as UpdateFailure {
            #expect(failure.code == .versionMismatch, here)
            #expect(!isRight || model.launch != name || model.verdict == .good, here)
        }
    }

    private mutating func shown(_ launched: Launched) throws -> (ClientName, LaunchToken, Bool) {
        if chance(85) {
            let isCurrent = try bench.ledger().launch.map { try launched.token.digest() == $0.tokenSha256 } ?? false
            return (launched.name, launched.token, isCurrent)
        }
        if chance(50) { return (launched.name, try .random(), false) }
        return (try Sample.name("0.0.7"), launched.token, false)
    }

    /// Ends the shell.
    private mutating func end() {
        note("end")
        launcher = nil
    }

    private mutating func collect() async throws {
        let keep = Int.random(in: 1...4, using: &generator)
        note("gc", "\(keep)")
        let roles = try roles()
        let shown = launcher == nil ? nil : last?.name.archive
        let plan = try await bench.open().retain(keeping: keep)
        let (retained, removed) = (plan.retained.compactMap(\.archive), plan.removed.compactMap(\.archive))
        #expect(removed.allSatisfy { !roles.contains($0) && $0 != shown }, here)
        #expect((retained + removed).sorted() == model.installed.keys.sorted(), here)
        #expect(removed.isEmpty || retained.count >= keep, here)
        try forgetCollected(protecting: roles)
    }

    /// The clients that retention must not remove now.
    private func roles() throws -> Set<SemanticVersion> {
        let ledger = try bench.ledger()
        var names: [ClientName?] = [ledger.current, ledger.previous, ledger.pending, ledger.launch?.name]
        names += [model.launch, model.lastKnownGood]
        // The store knows the next client only for the shell that launched last.
        if ledger.shell?.description == "\(model.shell).0.0" {
            names += [model.next, model.usable.last.map(ClientName.archive)]
        }
        return Set(names.compactMap { $0?.archive }).intersection(model.installed.keys)
    }

    private mutating func forgetCollected(protecting roles: Set<SemanticVersion>) throws {
        let left = Set(try Inventory.read(at: bench.store).bundles.compactMap(\.version.semantic))
        let gone = Set(model.installed.keys).subtracting(left)
        #expect(gone.isDisjoint(with: roles), here)
        #expect(left.isSubset(of: model.installed.keys), here)
        for version in gone { model.removes(version) }
        try adoptFallback()
    }

    private mutating func rollBack() throws {
        let installed = model.installed.keys.sorted().map(ClientName.archive)
        let target = chance(40) ? nil : (installed + [.embedded]).randomElement(using: &generator)
        note("rollback", target?.description ?? "")
        guard let verdicts = try? bench.verdicts() else { return }
        let ledger = try bench.ledger()
        let failed = ledger.launch?.verdict == .faulty ? ledger.launch?.name : nil
        let runs = failed ?? ledger.pending ?? ledger.current
        do {
            guard case .back(let goal, let blocked) = try verdicts.rollBack(to: target) else {
                // No client is below, or the failed client was rolled back automatically.
                #expect(target == nil, here)
                return
            }
            #expect(target == nil || goal == target, here)
            let newer = model.installed.keys.filter { version in
                (goal.archive.map { version > $0 } ?? true) && model.blocks[version] == nil
            }
            #expect(blocked.map(\.archive) == newer.sorted(), here)
            if target == nil, let before = runs.archive {
                #expect(goal.archive.map { $0 < before } ?? true, here)
            }
            model.rollsBack(to: goal)
            try adoptFallback()
        } catch let failure as UpdateFailure {
            switch failure.code {
            case .usage: #expect(target == .embedded && !model.hasSeed, here)
            case .versionBlocked: #expect(target?.archive.map { model.blocks[$0] != nil } ?? false, here)
            case .incompatibleShell: break
            default: Issue.record("\(failure): \(here)")
            }
        }
    }

    private mutating func unblock() throws {
        let known = model.blocks.keys.sorted() + model.installed.keys.sorted()
        guard let version = known.randomElement(using: &generator), let verdicts = try? bench.verdicts() else { return }
        note("unblock", "\(version)")
        #expect(try verdicts.unblock(.archive(version)) == (model.blocks[version] != nil), here)
        model.unblocks(version)
    }

    private mutating func changeSeed() {
        launcher = nil
        model.seed += 1
        note("seed", "\(model.seed)")
    }

    private mutating func changeShell() {
        launcher = nil
        model.shell = Int.random(in: 1...3, using: &generator)
        note("shell", "\(model.shell)")
    }

    private mutating func removeFolder() async throws {
        guard let version = model.installed.keys.sorted().randomElement(using: &generator) else { return }
        note("rm", "\(version)")
        launcher = nil
        try bench.remove("clients/\(version.folderName)")
        model.removes(version)
        try await reopen()
    }

    /// Runs one of the two recoveries.
    private mutating func reopen() async throws {
        if chance(50) {
            _ = try bench.open()
            try adoptFallback()
        } else {
            launcher = nil
            launcher = try startShell()
        }
    }

    private mutating func damage() async throws {
        guard let text = try bench.text("ledger.json"), chance(60) else { return }
        launcher = nil
        var bytes = Array(text.utf8)
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: bytes.removeLast(Int.random(in: 1...bytes.count, using: &generator))
        case 1:
            bytes[Int.random(in: 0..<bytes.count, using: &generator)] ^= UInt8.random(in: 1...255, using: &generator)
        case 2: for index in bytes.indices { bytes[index] = UInt8.random(in: 0...255, using: &generator) }
        default: bytes = []
        }
        note("damage")
        let old = try bench.ledger()
        // The previous ledger would repair the damage.
        try bench.remove("ledger.before.json")
        if bytes.isEmpty, chance(50) {
            try bench.remove("ledger.json")
        } else {
            try bench.overwrite("ledger.json", bytes)
            if let read = try? LedgerFile.read(try bench.root()) {
                #expect(read == old, here)
                return
            }
        }
        model.forgetsAll()
        try await reopen()
    }

    // MARK: Checks

    private func standings() throws -> [SemanticVersion: Ledger.Standing] {
        let ledger = try bench.ledger()
        let versions = ledger.entries.compactMap(\.version.semantic)
        return Dictionary(uniqueKeysWithValues: versions.map { ($0, ledger.standing(of: .archive($0))) })
    }

    /// Clocks decide which of several good clients becomes the fallback.
    private mutating func adoptFallback() throws {
        guard model.isFallbackLost else { return }
        model.isFallbackLost = false
        let chosen = try bench.ledger().lastKnownGood
        #expect(model.fallbacks.contains(chosen), here)
        model.lastKnownGood = chosen
    }

    private func check(_ before: [SemanticVersion: Ledger.Standing]) throws {
        let ledger = try bench.ledger()
        let inventory = try Inventory.read(at: bench.store)
        #expect(!inventory.isUnsettled, here)
        #expect(inventory.bundles.map(\.version.semantic) == model.installed.keys.sorted(), here)
        #expect(ledger.lastKnownGood == model.lastKnownGood, here)
        #expect(Set(ledger.blocks.map(\.version.semantic)) == Set(model.blocks.keys), here)
        for block in ledger.blocks {
            #expect(
                (block.cause == .byHand) == (block.version.semantic.map { model.blocks[$0] } == .byHand),
                "\(block): \(here)")
        }
        for version in model.installed.keys {
            let record = ledger.record(of: .archive(version))
            #expect((record?.goodSince != nil) == model.good.contains(version), "\(version): \(here)")
            let failures = record?.failures.count ?? 0
            #expect(failures == model.failures[version] ?? 0, "\(version): \(here)")
            #expect(failures < 2 || ledger.block(on: .archive(version)) != nil, "\(version): \(here)")
            if let old = before[version] {
                let edge = "\(old.word) \(ledger.standing(of: .archive(version)).word)"
                #expect(
                    old.word == ledger.standing(of: .archive(version)).word || Self.edges.contains(edge),
                    "\(version) \(edge): \(here)")
            }
        }
        let roles = [ledger.current, ledger.previous, ledger.pending, ledger.lastKnownGood, ledger.launch?.name]
        for version in roles.compactMap({ $0?.archive }) { #expect(model.installed[version] != nil, here) }
        let shell: SemanticVersion = try Sample.version("\(model.shell).0.0")
        let choice = SelectionRule.select(inventory, shell: shell, hasSeed: model.hasSeed)
        #expect(choice?.name == model.next, here)
        if let bundle = choice?.name.version.flatMap(inventory.bundle) {
            #expect(try InstalledTree.difference(of: bundle, inStoreAt: bench.store) == nil, here)
        }
        if launcher != nil, let last, model.launch == last.name { #expect(try hasShim(last.page), here) }
    }

    /// The states that a client may have after one step, in addition to its present one.
    private static let edges: Set<String> = [
        "staged trial", "staged blocked", "trial good", "trial failed", "trial blocked", "trial staged", "failed trial",
        "failed blocked", "failed staged", "good failed", "good blocked", "good staged", "blocked staged",
        "blocked trial", "blocked good",
        // A verdict on a launch that was left by hand, which is not a trial.
        "staged good", "staged failed", "failed good",
    ]
}
