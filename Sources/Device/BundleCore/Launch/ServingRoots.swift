import BundleFormats
import BundleValues
import BundleDisk
import CLibrary
import Synchronization

/// Creates the serving roots of installed clients and of the seed when they are first needed.
struct ServingRoots: Sendable {
    let device: Launcher.LaunchDevice
    let seed: SeedFolder?
    let folders: StoreFolders
    let organizer: BundleOrganizer
    let environment: Environment

    private var serving: ServingFolder { ServingFolder(folders.serving) }

    /// Returns the root of `name`, and creates it if it is missing. Returns nil if there is no such client.
    func root(of name: ClientName, in inventory: Inventory) throws -> OrganizedRoot? {
        guard let version = name.version else { return try seed.map(shown) }
        guard let bundle = inventory.bundle(version) else { return nil }
        let servingName = bundle.entry.identity.servingName
        if device.verifies { try requireWhole(bundle) }
        if let root = try organizer.existing(servingName) { return root }
        do {
            let tree = try folders.trees(of: version).directory(version.folderName)
            return try organized(try map(of: bundle, in: tree), as: servingName)
        } catch {
            // Damage to the client would make every launch fail, so a damaged client is removed and can be installed
            // again.
            try requireWhole(bundle)
            throw error
        }
    }

    /// Returns the seed's root, or its own folder if the root cannot be created.
    private func shown(_ seed: SeedFolder) throws -> OrganizedRoot {
        do {
            return try organize(seed)
        } catch {
            let root = try Self.inPlace(seed, layout: device.layout)
            environment.log(
                "\(UpdateFailure(error).message) Until then the seed is shown from \(root.path), where only `serve` can add "
                    + "WebAppLocalServer to the page.")
            return root
        }
    }

    private func organize(_ seed: SeedFolder) throws -> OrganizedRoot {
        let name = try seed.servingName(shell: device.shell)
        if let root = try organizer.existing(name) { return root }
        do {
            try serving.removeUnused { $0.hasPrefix(SeedFolder.servingPrefix) }
        } catch {
            environment.log("\(UpdateFailure(error).message) The next seed tries again.")
        }
        return try organized(Self.map(of: seed, device.layout), as: name)
    }

    /// Returns the seed in its own folder, without writing.
    static func inPlace(_ seed: SeedFolder, layout: (any MeteorLayout)?) throws -> OrganizedRoot {
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
                "\(bundle.name) is a Meteor bundle, which this shell cannot read. Build the shell with a Meteor layout."
            )
        }
        let owned = try Receipt.paths(of: folders.receipts.file(StoreLayout.receipt(bundle.version)))
        // A file that the receipt does not list would be looked up in the seed.
        guard owned.count == bundle.entry.fileCount else {
            throw UpdateFailure(
                .storeDamaged, subject: "\(bundle.name)",
                "The receipt of \(bundle.name) lists \(owned.count) files, not \(bundle.entry.fileCount): "
                    + "install it again.")
        }
        if let wanted = bundle.entry.identity.seed, wanted != seed?.identity {
            throw UpdateFailure(
                .configInvalid, subject: "\(bundle.name)",
                "\(bundle.name) uses files of a seed that is missing or differs from this one. "
                    + "Name its seed with --seed.")
        }
        let inherited = bundle.entry.identity.seed == nil ? nil : seed
        var map = try layout.assets(of: tree, owned: owned, inheriting: inherited?.directory)
        map.extracted = try inherited.flatMap(extracted)
        return map
    }

    /// Returns the seed's serving root if its files cannot be linked from their folder, so that they are extracted
    /// once and not for every bundle.
    private func extracted(_ seed: SeedFolder) throws -> AssetMap.Extracted? {
        if seed.canBeLinked(into: folders.serving) { return nil }
        let root = try organize(seed)
        // The page of the root differs from the seed's, since it has the shim.
        let files = try Self.map(of: seed, device.layout).assets.filter { $0.urlPath != BundlePath.index }
        return AssetMap.Extracted(
            source: seed.directory, root: root.directory,
            urlPaths: Dictionary(files.map { ($0.path, $0.urlPath) }) { first, _ in first })
    }

    private func organized(_ map: AssetMap, as name: String) throws -> OrganizedRoot {
        let root = try organizer.organize(map, as: name)
        for warning in root.warnings { environment.log("\(name): \(warning)") }
        return root
    }

    /// Throws for a client that differs from its receipt, and removes it so that it can be installed again.
    private func requireWhole(_ bundle: InstalledBundle) throws {
        guard let difference = try InstalledTree.difference(of: bundle, inStoreAt: folders.root.path) else {
            // The client is intact, but its serving root may be damaged. A root that is being shown stays.
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
            "The store disagrees with its receipts: in \(bundle.name), \(difference). The client was removed; install it again."
        )
    }

    /// Returns the folder with the asset manifest of `name`; nil if the client has none.
    func manifestFolder(of name: ClientName) throws -> Directory? {
        guard let version = name.version else { return seed?.facts == nil ? nil : seed?.directory }
        return version.source == .meteor ? try folders.meteor.directory(version.folderName) : nil
    }
}

/// Whether the disk accepts writes, and which warnings were logged.
final class DiskWrites: Sendable {
    private struct State {
        var areRefused = true
        var isStartWritten = false
        var reported: Set<String> = []
    }

    private let state = Mutex(State())
    private let environment: Environment

    /// Creates the state before the first write, in which writes count as refused.
    init(_ environment: Environment) { self.environment = environment }

    /// Whether the last launch could not be recorded.
    var areRefused: Bool { state.withLock { $0.areRefused } }
    /// Whether the start of this shell is recorded.
    var isStartWritten: Bool { state.withLock { $0.isStartWritten } }

    func refuse() { state.withLock { $0.areRefused = true } }

    func allow() { state.withLock { ($0.areRefused, $0.isStartWritten) = (false, true) } }

    /// Records a successful write. Later warnings are logged again.
    func settle() { state.withLock { $0 = State(areRefused: false, isStartWritten: true) } }

    /// Logs `line` unless it was logged since the last successful write, since a shell tries twice a second.
    func log(_ line: String) {
        // Temporary names are random, so they are ignored in the comparison.
        let stableLine = line.split(separator: "/").filter { !$0.hasPrefix(".new-") }.joined(separator: "/")
        if state.withLock({ $0.reported.insert(stableLine).inserted }) { environment.log(line) }
    }
}

extension StartFailure {
    /// Returns whether the client, and not the device with its disk, limits or settings, is the cause of `error`.
    package static func isOfClient(_ error: any Error) -> Bool {
        switch error {
        case let error as DiskError: isOfClient(error)
        case OrganizingError.notPlaced(_, _, let copy): isOfClient(copy)
        case let failure as UpdateFailure:
            ![.configInvalid, .storeLocked, .diskFull, .permissionDenied, .resourcesExhausted].contains(failure.code)
        // The error of another shell's web view may not be about the client.
        default: error is any ClassifiedFailure
        }
    }

    private static func isOfClient(_ error: DiskError) -> Bool {
        !error.isWriteRefusal && ![EMFILE, ENFILE, ENOMEM, ENOSYS].contains(error.code)
    }
}
