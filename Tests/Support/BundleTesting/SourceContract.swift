package import BundleCore
import BundleValues
import BundleDisk

/// The rules for every `UpdateSource`, applied to one that has a client for the device. The updater relies on them.
package struct SourceContract<Channel: UpdateSource>: Sendable {
    private let channel: Channel
    private let folder: TemporaryFolder
    private let device: Updater<Channel>.UpdateDevice

    private var store: String { device.store }

    /// Tests `channel` with an empty store.
    package init(_ channel: Channel, shell: String = "1.0.0", appId: String? = nil) throws {
        self.channel = channel
        folder = try TemporaryFolder()
        device = Updater<Channel>.UpdateDevice(
            store: folder.file("store"), shell: try SemanticVersion(parsing: shell), appId: appId, keep: 3)
    }

    /// Returns the violated rules.
    package func broken() async throws -> [String] {
        var broken: [String] = []
        let (offer, inventory) = try await self.offer(Inventory.read(at: store), &broken)
        if try Inventory.exists(at: store) { broken.append("looking for an offer writes nothing") }

        let decision = decide(offer, inventory)
        if decision.verdict != .install { broken.append("what a device does not have is to be installed") }
        if decide(offer, inventory) != decision { broken.append("a decision is the same twice") }

        try await stage(offer, &broken)
        try await end(offer, &broken)
        try await install(offer, &broken)
        return broken
    }

    private func decide(_ offer: Channel.Offer, _ inventory: Inventory) -> Decision {
        channel.decide(offer, in: inventory, shell: device.shell, appId: device.appId)
    }

    private func request(_ inventory: Inventory, _ stepsLeft: Int) -> OfferRequest {
        OfferRequest(inventory: inventory, shell: device.shell, appId: device.appId, stepsLeft: stepsLeft)
    }

    /// Returns the offer, and the store with the changes that the source requests.
    private func offer(
        _ first: Inventory, _ broken: inout [String]
    ) async throws -> (Channel.Offer, Inventory) {
        var inventory = first
        for stepsLeft in (0...OfferRequest.maximumSteps).reversed() {
            switch try await channel.latestOffer(for: request(inventory, stepsLeft)) {
            case .offer(let offer):
                guard case .offer(let again) = try await channel.latestOffer(for: request(inventory, stepsLeft)),
                    again.clientVersion == offer.clientVersion, again.footprint == offer.footprint
                else { throw Broken("the same request has the same answer") }
                return (offer, offer.feed.map(inventory.recording) ?? inventory)
            case .remember(let news):
                guard case .remember(let again) = try await channel.latestOffer(for: request(inventory, stepsLeft)),
                    again == news
                else { throw Broken("the same request has the same answer") }
                let next = inventory.recording(news)
                if next.ledger == inventory.ledger { broken.append("what is to be remembered is new") }
                inventory = next
            }
        }
        throw Broken("with no steps left there is an offer")
    }

    /// Checks that staging completes a tree and does not change the ledger.
    private func stage(_ offer: Channel.Offer, _ broken: inout [String]) async throws {
        let opened = try BundleStore.open(at: store, environment: Environment())
        let before = try await opened.inventory().ledger
        let area = try await opened.openStaging(for: offer.footprint)
        let staged = try await channel.stage(offer, in: area, reusing: try await opened.reuseIndex())
        if staged.identity.version != offer.clientVersion { broken.append("what is staged is what was offered") }
        if try area.tree.kind(of: "index.html") == nil { broken.append("a staged tree has its index page") }
        let after = try await opened.inventory()
        if after.ledger != before || !after.bundles.isEmpty { broken.append("staging touches no ledger") }
        await opened.discard(area, keepingDownloads: false)
    }

    /// Checks that a cancelled task stages nothing.
    private func end(_ offer: Channel.Offer, _ broken: inout [String]) async throws {
        let opened = try BundleStore.open(at: store, environment: Environment())
        let area = try await opened.openStaging(for: offer.footprint)
        let index = try await opened.reuseIndex()
        let staging = Task { [channel] in
            while !Task.isCancelled { await Task.yield() }
            return try await channel.stage(offer, in: area, reusing: index)
        }
        staging.cancel()
        if case .success = await staging.result { broken.append("who is cancelled stages nothing") }
        await opened.discard(area, keepingDownloads: false)
    }

    /// Checks that an update installs the client once.
    private func install(_ offer: Channel.Offer, _ broken: inout [String]) async throws {
        let updater = Updater(source: channel, device: device, environment: Environment())
        guard case .installed(let version, let report) = try await updater.update(), version == offer.clientVersion
        else { throw Broken("what is to be installed is installed") }
        if report.bundle?.version != version { broken.append("what is installed is in the store") }
        let written = try FolderSnapshot(of: store)
        guard case .upToDate(_, let inventory, let newest) = try await updater.update() else {
            throw Broken("what is installed is up to date")
        }
        if newest != .installed(version) { broken.append("what is installed is the newest") }
        if try FolderSnapshot(of: store) != written { broken.append("who has nothing to do writes nothing") }
        guard case .upToDate = decide(offer, inventory).verdict else {
            broken.append("a decision says that it is there")
            return
        }
    }

    /// A violated rule that ends the test.
    private struct Broken: Error, CustomStringConvertible {
        let description: String

        init(_ promise: String) { description = promise }
    }
}
