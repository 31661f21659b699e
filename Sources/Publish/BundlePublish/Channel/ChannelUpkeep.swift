import ArchiveSource
import BundleValues

/// Keeps what a feed has of a channel small, and removes a channel.
package struct ChannelUpkeep {
    /// What became of a channel.
    package struct Report: Sendable {
        /// What became of its document; nil for a channel that is removed.
        package let document: ChannelReport?
        /// The files that were removed, or would be, in order.
        package let removed: [String]
    }

    /// Numbered copies that stay by themselves.
    static let keptCopies = 100

    private let feed: any FeedPlace
    private let isDryRun: Bool
    private let wait: FeedWait

    /// Of the feed `feed`.
    package init(_ feed: any FeedPlace, isDryRun: Bool, wait: FeedWait) {
        (self.feed, self.isDryRun, self.wait) = (feed, isDryRun, wait)
    }

    /// Removes from `channel` the releases that no device takes, but the `keep` highest, and all numbered copies but the newest `copies`; nil
    /// leaves them.
    package func prune(_ channel: String, keep: Int, copies: Int?, _ terms: ChannelTerms) throws -> Report {
        let document = try ChannelEditor(feed: feed, terms).prune(channel, keeping: keep)
        guard let copies else { return Report(document: document, removed: []) }
        let old = try ChannelHistory.sequences(of: channel, in: feed).dropLast(copies)
        return Report(document: document, removed: try remove(old.map { ChannelDesk.copyPath(of: channel, $0) }))
    }

    /// Removes `channel`: its document first, so that no device finds one without what belongs to it, then its hold and its copies.
    package func delete(_ channel: String) throws -> Report {
        try feed.requireThere()
        let folder = "\(ChannelDesk.folder)/\(channel)"
        let documents = [ChannelDesk.path(of: channel), HoldDesk.path(of: channel)]
        let there = Set(try feed.list(ChannelDesk.folder).map(\.name))
        let copies = there.filter { $0.hasPrefix(folder + "/") }.sorted()
        let names = documents.filter(there.contains) + copies
        if names.isEmpty { try ChannelEditor.requireChannel(channel, in: feed) }
        let removed = try remove(names)
        if !isDryRun { try feed.alone(wait) { try feed.removeFolder(folder) } }
        return Report(document: nil, removed: removed)
    }

    private func remove(_ names: [String]) throws -> [String] {
        if isDryRun { return names }
        return try feed.alone(wait) {
            for name in names { try feed.remove(name) }
            try feed.settle(ChannelDesk.folder)
            return names
        }
    }
}
