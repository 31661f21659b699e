import ArchiveSource
import BundleDisk

/// Which sequence every channel of a feed has, as its documents say; nobody's word is checked, since none is believed.
struct ChannelSequences: Equatable {
    private static let folder = "channels"
    private static let suffix = ".json"

    private(set) var numbers: [String: Int] = [:]
    /// Channels whose newest release is urgent.
    private(set) var urgent: Set<String> = []
    /// Channels whose document cannot be read; what it had before stands.
    private(set) var unreadable: Set<String> = []

    /// The folder of the channels' documents, where there is one.
    static func folder(in feed: Directory) -> Directory? { try? feed.directory(folder) }

    /// What the feed has now, knowing what it had before.
    func read(again folder: Directory?) -> ChannelSequences {
        var fresh = ChannelSequences()
        // A folder that cannot be listed is like one that is not there.
        for file in (try? folder?.list()) ?? [] where file.hasSuffix(Self.suffix) {
            let name = String(file.dropLast(Self.suffix.count))
            guard ChannelFileName.isName(name) else { continue }
            if let document = Self.document(of: name, in: folder) {
                fresh.numbers[name] = document.sequence
                if document.isUrgent { fresh.urgent.insert(name) }
            } else {
                fresh.unreadable.insert(name)
                fresh.numbers[name] = numbers[name]
                if urgent.contains(name) { fresh.urgent.insert(name) }
            }
        }
        return fresh
    }

    private static func document(of name: String, in folder: Directory?) -> ChannelDocument? {
        guard
            let bytes = try? folder?.contents(ChannelFileName.file(of: name), maximumBytes: ChannelFormat.maximumBytes),
            let envelope = try? ChannelFormat.envelope(parsing: bytes),
            let document = try? ChannelFormat.parse(envelope).claims, document.channel == name
        else { return nil }
        return document
    }

    /// What is to be said about the channels whose sequence is another one than `before`.
    func news(since before: ChannelSequences) -> [String] {
        numbers.sorted { $0.key < $1.key }.filter { before.numbers[$0.key] != $0.value }
            .map { SyncMessage.release(channel: $0.key, sequence: $0.value, isUrgent: urgent.contains($0.key)).text }
    }
}
