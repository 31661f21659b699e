import BundleFormats
import BundleValues

/// Prunes the releases and copies of a channel, and deletes channels.
package struct ChannelUpkeep {
    package struct Removal: Sendable {
        /// The edit of the channel file; nil if the channel was deleted.
        package let document: ChannelReport?
        /// The files that were removed, or that a dry run would remove, in order.
        package let removed: [String]
    }

    /// The number of numbered copies that an edit keeps.
    static let keptCopies = 100

    private let feed: any FeedLocation
    private let isDryRun: Bool
    private let wait: FeedWait

    package init(_ feed: any FeedLocation, isDryRun: Bool, wait: FeedWait) {
        (self.feed, self.isDryRun, self.wait) = (feed, isDryRun, wait)
    }

    /// Removes the releases of `channel` that no device installs, except the `keep` highest, and all numbered copies
    /// except the newest `copies`; nil keeps all copies.
    package func prune(_ channel: String, keep: Int, copies: Int?, terms: ChannelTerms) throws -> Removal {
        let document = try ChannelEditor(feed: feed, terms).prune(channel, keeping: keep)
        guard let copies else { return Removal(document: document, removed: []) }
        let old = try ChannelHistory.sequences(of: channel, in: feed).dropLast(copies)
        return Removal(
            document: document, removed: try remove(old.map { ChannelWriter.copyPath(of: channel, sequence: $0) }))
    }

    /// Deletes `channel`: first its file, so that no device reads an incomplete channel, then its hold and its
    /// copies.
    package func delete(_ channel: String) throws -> Removal {
        try feed.address.requireExists()
        let folder = "\(ChannelWriter.folder)/\(channel)"
        let documents = [ChannelWriter.path(of: channel), HoldEditor.path(of: channel)]
        let there = Set(try feed.list(ChannelWriter.folder).map(\.name))
        let copies = there.filter { $0.hasPrefix(folder + "/") }.sorted()
        let names = documents.filter(there.contains) + copies
        if names.isEmpty { try ChannelEditor.requireChannel(channel, in: feed) }
        return Removal(document: nil, removed: try remove(names) { try feed.remove(folder + "/") })
    }

    private func remove(_ names: [String], andThen end: () throws -> Void = {}) throws -> [String] {
        if isDryRun { return names }
        return try feed.exclusive(wait) {
            for name in names { try feed.remove(name) }
            try end()
            return names
        }
    }
}
