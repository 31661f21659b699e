import ArchiveSource
import BundleDisk
import BundleValues

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

    /// The channels of a feed by name, whatever their documents are.
    static func names(in feed: Directory) -> [String] {
        ((try? folder(in: feed)?.list()) ?? []).filter { $0.hasSuffix(suffix) }
            .map { String($0.dropLast(suffix.count)) }.filter(ChannelFileName.isName)
    }

    /// What the feed has now, knowing what it had before.
    func read(again folder: Directory?) -> ChannelSequences {
        var fresh = ChannelSequences()
        // A folder that cannot be listed is like one that is not there.
        for file in (try? folder?.list()) ?? [] where file.hasSuffix(Self.suffix) {
            let name = String(file.dropLast(Self.suffix.count))
            guard ChannelFileName.isName(name) else { continue }
            if let bytes = try? folder?.contents(file, maximumBytes: ChannelFormat.maximumBytes),
                let document = try? Self.document(in: bytes, of: name)
            {
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

    /// The document of a channel. Throws `DocumentRefusal` where it is none, and `OtherChannel`.
    static func document(in bytes: [UInt8], of channel: String) throws -> ChannelDocument {
        let document = try ChannelFormat.parse(try ChannelFormat.envelope(parsing: bytes)).claims
        guard document.channel == channel else { throw OtherChannel(name: document.channel) }
        return document
    }

    /// The document says that it is another channel's.
    struct OtherChannel: Error, CustomStringConvertible {
        let name: String

        var description: String { "it is the document of the channel \(name)" }
    }

    /// The same with this sequence for one channel.
    func with(_ sequence: Int, isUrgent: Bool = false, of channel: String) -> ChannelSequences {
        var changed = self
        changed.numbers[channel] = sequence
        if isUrgent { changed.urgent.insert(channel) } else { changed.urgent.remove(channel) }
        return changed
    }

    /// What is to be said about the channels whose sequence is another one than `before`.
    func news(since before: ChannelSequences) -> [(channel: String, text: String)] {
        numbers.sorted { $0.key < $1.key }.filter { before.numbers[$0.key] != $0.value }
            .map {
                (
                    $0.key,
                    SyncMessage.release(channel: $0.key, sequence: $0.value, isUrgent: urgent.contains($0.key)).text
                )
            }
    }
}
