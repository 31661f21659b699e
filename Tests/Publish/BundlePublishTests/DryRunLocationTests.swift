import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

import BundleFormats
@testable import BundlePublish

/// A dry run reports exactly the writes of the run that follows it.
@Suite("DryRunLocation", .ownThread) struct DryRunLocationTests {
    private let store: Store
    private let publisher: StorePublisher

    init() throws {
        store = try Store()
        publisher = try StorePublisher(store)
    }

    /// The writes that the store received, with the probe once.
    private func seen(since count: Int) -> [[String]] {
        let puts = store.puts.dropFirst(count).map { request in
            [
                String(request.target.dropFirst("/feeds/x/".count)), "\(request.body.count)",
                request["Cache-Control"] ?? "", request["Content-Type"] ?? "",
            ]
        }
        return puts.enumerated().filter { $0.offset == 0 || puts[$0.offset - 1] != $0.element }.map(\.element)
    }

    private func listed(_ writes: [FeedWrite]?) -> [[String]] {
        (writes ?? []).map { write in
            [write.name, "\(write.size)"]
                + ["Cache-Control", "Content-Type"].map { name in write.headers.first { $0.name == name }?.value ?? "" }
        }
    }

    @Test func `lists every write of a publication without sending it`() throws {
        for version in ["1.0.0", "1.1.0"] {
            let (before, count) = (store.objects, store.puts.count)
            let dryRun = try publisher.publish(version, isDryRun: true)
            #expect(dryRun.outcome == .dryRun && dryRun.channel?.outcome == .dryRun)
            #expect(store.objects == before && store.puts.count == count)
            let done = try publisher.publish(version)
            #expect(done.outcome == .published && done.writes == nil)
            #expect(dryRun.isNewest == done.isNewest && dryRun.offered == done.offered)
            #expect(listed(dryRun.writes) == seen(since: count))
            #expect(dryRun.writes?.map(\.kind).first == .probe)
            #expect((dryRun.writes?.count ?? 0) >= 6)
        }
        let again = try publisher.publish("1.1.0", isDryRun: true)
        #expect(again.outcome == .unchanged && again.writes == [])
    }

    @Test func `lists every write of a channel edit without sending it`() throws {
        try publisher.publish("1.0.0")
        let count = store.puts.count
        var terms = publisher.workspace.terms()
        terms.isDryRun = true
        let change = ChannelChange.pause(try publisher.workspace.version("1.0.0"))
        let dryRun = try ChannelEditor(feed: store.location(), terms).apply(change, to: "stable")
        #expect(dryRun.outcome == .dryRun && store.puts.count == count)
        terms.isDryRun = false
        let done = try ChannelEditor(feed: store.location(), terms).apply(change, to: "stable")
        #expect(done.outcome == .changed && done.writes == nil)
        #expect(listed(dryRun.writes) == seen(since: count))
        #expect(
            dryRun.writes?.map(\.name) == [".clientctl-probe", "channels/stable/2.json", "channels/stable.json"])
    }

    @Test func `reports no headers and takes no lock for a folder`() throws {
        let workspace = try Workspace()
        try workspace.put(workspace.document("1.0.0"))
        var terms = workspace.terms()
        terms.isDryRun = true
        let edited = try workspace.location.exclusive(FeedWait()) {
            try ChannelEditor(feed: workspace.location, terms).apply(.pause(workspace.version("1.0.0")), to: "stable")
        }
        #expect(edited.writes?.map(\.name) == ["channels/stable/2.json", "channels/stable.json"])
        #expect(edited.writes?.allSatisfy { $0.headers.isEmpty } == true)
    }
}
