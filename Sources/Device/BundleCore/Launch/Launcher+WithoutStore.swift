import BundleDisk
import BundleValues

extension Launcher {
    /// Returns whether `error` means that the store cannot be used: it is full, read-only or broken, or belongs to
    /// another user or a newer program. A store in use and a folder that is not a store do not count.
    package static func isWithoutStore(_ error: any Error) -> Bool {
        error is DiskError || error is NewerLedger || (error as? UpdateFailure)?.code == .permissionDenied
    }

    /// Launches the seed from its own folder if the store cannot be used; throws `error` otherwise. Nothing is
    /// stored, so the launch needs no verdict.
    package static func launch(
        _ device: LaunchDevice, withoutStore error: any Error, log: (String) -> Void
    ) throws -> Launched {
        guard isWithoutStore(error), let path = device.seed else { throw error }
        let seed = try SeedFolder(at: path, layout: device.layout)
        let root = try ServingRoots.inPlace(seed, layout: device.layout)
        log(
            "\(UpdateFailure(error).message) Until then the seed is shown from \(root.path), and nothing is stored."
        )
        let client = ReadyClient(
            name: .embedded, source: "embedded", root: root, use: nil, receipt: nil,
            manifest: seed.facts == nil ? nil : seed.directory, layout: device.layout, facts: nil)
        return Launched(
            prepared: PreparedLaunch(choice: .init(name: .embedded, reason: .onlyOne), client: client),
            token: try .random(), isTrial: false, isRecorded: false)
    }
}
