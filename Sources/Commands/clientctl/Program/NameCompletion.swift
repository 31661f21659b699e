import ArgumentParser
import BundleDisk
import BundleValues

extension CompletionKind {
    /// The channels of the feed.
    static let channels = custom { words, _, _ in NameCompletion(words).channels }
    /// The versions in the store or the feed.
    static let versions = custom { words, _, _ in NameCompletion(words).versions }
}

/// The names that a shell suggests: those in the store or the feed of a command line, or of `clientctl.json` in the working folder. The shell
/// shows no errors, so a folder that cannot be read has no names.
struct NameCompletion {
    private let words: [String]

    /// Creates the completion of a command line.
    init(_ words: [String]) { self.words = words }

    /// The names of the channel files in the feed, without those of holds.
    var channels: [String] {
        names(in: "channels", of: folder("feed")).filter { !$0.hasSuffix(".hold.json") }
            .compactMap { $0.dropping(suffix: ".json") }.sorted()
    }

    /// The versions of the clients in the store, or of the releases in the feed.
    var versions: [String] {
        let store = folder("store")
        let found = store == nil ? names(in: "releases", of: folder("feed")) : names(in: "clients", of: store)
        return found.compactMap { name in
            name.dropping(prefix: "v").flatMap { try? SemanticVersion(parsing: $0) }
        }.sorted().reversed().map(\.description)
    }

    private func folder(_ flag: String) -> String? {
        if let index = words.firstIndex(of: "--\(flag)"), let value = words[(index + 1)...].first { return value }
        if let value = words.lazy.compactMap({ $0.dropping(prefix: "--\(flag)=") }).first { return String(value) }
        return try? Settings.project().members[flag]?.stringValue
    }

    private func names(in name: String, of folder: String?) -> [String] {
        guard let folder, let found = try? Directory.open(folder).directory(name).list() else { return [] }
        return found
    }
}
