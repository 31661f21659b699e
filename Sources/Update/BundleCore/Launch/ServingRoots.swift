import BundleValues
import BundleDisk
import Glibc
import Synchronization

/// Makes the serving roots of installed clients and of the seed, each when it is first asked for.
struct ServingRoots: Sendable {
    let device: Launcher.Device
    let seed: SeedFolder?
    let folders: StoreFolders
    let organizer: BundleOrganizer
    let warn: @Sendable (String) -> Void

    private var serving: ServingFolder { ServingFolder(folders.serving) }

    /// The root of `name`, made where it is missing; nil where there is no such client.
    func root(of name: ClientName, _ inventory: Inventory) throws -> OrganizedRoot? {
        guard let version = name.version else { return try seed.map(shown) }
        guard let bundle = inventory.bundle(version) else { return nil }
        let servingName = bundle.entry.identity.servingName
        if device.verifies { try requireWhole(bundle) }
        if let root = try organizer.existing(servingName) { return root }
        do {
            let tree = try folders.trees(of: version).directory(version.folderName)
            return try organized(try map(of: bundle, in: tree), as: servingName)
        } catch {
            // One that is not what was installed would fail for ever: it goes, so that the next installation brings it anew.
            try requireWhole(bundle)
            throw error
        }
    }

    /// The seed is shown in any case: where its root cannot be made, from its own folder.
    private func shown(_ seed: SeedFolder) throws -> OrganizedRoot {
        do {
            return try organize(seed)
        } catch {
            let root = try Self.inPlace(seed, device.layout)
            warn(
                "\(UpdateFailure(error).message) Until then the seed is shown from \(root.path) itself: there, only `serve` can add "
                    + "WebAppLocalServer to the page.")
            return root
        }
    }

    private func organize(_ seed: SeedFolder) throws -> OrganizedRoot {
        let name = try seed.servingName(shell: device.shell)
        if let root = try organizer.existing(name) { return root }
        try serving.removeUnused { $0.hasPrefix(SeedFolder.servingPrefix) }
        return try organized(Self.map(of: seed, device.layout), as: name)
    }

    /// The seed in its own folder; nothing is written.
    static func inPlace(_ seed: SeedFolder, _ layout: (any MeteorLayout)?) throws -> OrganizedRoot {
        try BundleOrganizer.inPlace(map(of: seed, layout), in: seed.directory, as: SeedFolder.servingPrefix)
    }

    private static func map(of seed: SeedFolder, _ layout: (any MeteorLayout)?) throws -> AssetMap {
        guard let layout, seed.facts != nil else { return try AssetMap(tree: seed.directory) }
        return try layout.assets(of: seed.directory, owned: nil, inheriting: nil)
    }

    private func map(of bundle: InstalledBundle, in tree: Directory) throws -> AssetMap {
        if bundle.version.source == .archive { return try AssetMap(tree: tree) }
        guard let layout = device.layout else {
            throw UpdateFailure(
                .configInvalid, subject: "\(bundle.name)",
                "\(bundle.name) is a Meteor bundle, and this shell reads none: build it with a Meteor layout.")
        }
        let owned = try Receipt.paths(of: folders.receipts.file(StoreLayout.receipt(bundle.version)))
        // What a receipt does not list would be looked for in the seed.
        guard owned.count == bundle.entry.fileCount else {
            throw UpdateFailure(
                .storeDamaged, subject: "\(bundle.name)",
                "The receipt of \(bundle.name) lists \(owned.count) files, not \(bundle.entry.fileCount): "
                    + "install it again.")
        }
        if let wanted = bundle.entry.identity.seed, wanted != seed?.identity {
            throw UpdateFailure(
                .configInvalid, subject: "\(bundle.name)",
                "\(bundle.name) inherits files of the seed, which is not the one it was made for, or is "
                    + "missing: name it with --seed.")
        }
        let inherited = bundle.entry.identity.seed == nil ? nil : seed
        var map = try layout.assets(of: tree, owned: owned, inheriting: inherited?.directory)
        map.extracted = try inherited.flatMap(extracted)
        return map
    }

    /// The seed's own root, where its files cannot be linked from their folder: they are extracted once, not into every bundle.
    private func extracted(_ seed: SeedFolder) throws -> AssetMap.Extracted? {
        if seed.canBeLinked(into: folders.serving) { return nil }
        let root = try organize(seed)
        // Its page is not the seed's own: it has the shim.
        let files = try Self.map(of: seed, device.layout).assets.filter { $0.urlPath != BundlePath.index }
        return AssetMap.Extracted(
            source: seed.directory, root: root.directory,
            urlPaths: Dictionary(files.map { ($0.path, $0.urlPath) }) { first, _ in first })
    }

    private func organized(_ map: AssetMap, as name: String) throws -> OrganizedRoot {
        let root = try organizer.organize(map, as: name)
        for warning in root.warnings { warn("\(name): \(warning)") }
        return root
    }

    /// Refuses a client that is not what was installed, and removes it, so that the next installation brings it anew.
    private func requireWhole(_ bundle: InstalledBundle) throws {
        guard let difference = try InstalledTree.difference(of: bundle, inStoreAt: folders.root.path) else {
            // A root that was organized before may have been changed by itself. One that is shown is not taken away.
            let name = bundle.entry.identity.servingName
            guard let claim = try serving.claim(name) else { return }
            defer { withExtendedLifetime(claim) {} }
            try serving.remove(name)
            return
        }
        if let lock = try FileLock.take(StoreLayout.lock, in: folders.root) {
            defer { withExtendedLifetime(lock) {} }
            try ClientRemoval(folders).remove(bundle.entry, because: .lost(bundle.version))
        }
        throw UpdateFailure(
            .storeDamaged, subject: "\(bundle.name): \(difference)",
            "The store disagrees with its receipts: in \(bundle.name), \(difference). It is removed; install it again.")
    }

    /// The folder with the asset manifest of `name`; nil for a client without one.
    func manifestFolder(of name: ClientName) throws -> Directory? {
        guard let version = name.version else { return seed?.facts == nil ? nil : seed?.directory }
        return version.source == .meteor ? try folders.meteor.directory(version.folderName) : nil
    }
}

/// What the disk takes at present, and what was said about it.
final class Writes: Sendable {
    private struct State {
        var areRefused = true
        var isStartWritten = false
        var said: Set<String> = []
    }

    private let state = Mutex(State())
    private let say: @Sendable (String) -> Void

    /// Nothing is taken until it is allowed.
    init(_ say: @escaping @Sendable (String) -> Void) { self.say = say }

    /// Whether the last boot attempt was refused.
    var areRefused: Bool { state.withLock { $0.areRefused } }
    /// Whether the ledger says what the start of this shell means.
    var isStartWritten: Bool { state.withLock { $0.isStartWritten } }

    func refuse() { state.withLock { $0.areRefused = true } }

    func allow() { state.withLock { ($0.areRefused, $0.isStartWritten) = (false, true) } }

    /// A launch is on the disk: whatever was wrong is over, or worth to be said again.
    func settle() { state.withLock { $0 = State(areRefused: false, isStartWritten: true) } }

    /// Says `line` unless it has been said since the last launch: a shell looks twice a second, and the disk may be full.
    func warn(_ line: String) {
        // What is made anew at each try has a random name.
        let matter = line.split(separator: "/").filter { !$0.hasPrefix(".new-") }.joined(separator: "/")
        if state.withLock({ $0.said.insert(matter).inserted }) { say(line) }
    }
}

extension StartFailure {
    /// Whether a client that cannot be made ready is to blame, and not the device: its disk, its limits, its settings.
    package static func isOfClient(_ error: any Error) -> Bool {
        switch error {
        case let error as DiskError: isOfClient(error)
        case OrganizingError.notPlaced(_, _, let copy): isOfClient(copy)
        case let failure as UpdateFailure:
            ![.configInvalid, .storeLocked, .diskFull, .permissionDenied, .resourcesExhausted].contains(failure.code)
        // What a shell of somebody else's says about its own web view is not known to be about the client.
        default: error is any ClassifiedFailure
        }
    }

    private static func isOfClient(_ error: DiskError) -> Bool {
        !error.isWriteRefusal && ![EMFILE, ENFILE, ENOMEM, ENOSYS].contains(error.code)
    }
}
