import BundleFormats
import ArchiveSource
import BundleDisk
import BundleValues

/// The sequences in the channel files of a feed. Signatures are not checked, because sequences are hints only.
struct ChannelSequences: Equatable {
    private static let folder = "channels"
    private static let suffix = ".json"

    private(set) var numbers: [String: Int] = [:]
    /// The channels whose newest release is urgent.
    private(set) var urgent: Set<String> = []
    /// The channels with unreadable files. They keep their previous sequences.
    private(set) var unreadable: Set<String> = []

    /// Returns the folder of the channel files, or nil if there is none.
    static func folder(in feed: Directory) -> Directory? { try? feed.directory(folder) }

    /// Returns the names of the channels, with readable files or not.
    static func names(in feed: Directory) -> [String] {
        ((try? folder(in: feed)?.list()) ?? []).filter { $0.hasSuffix(suffix) }
            .map { String($0.dropLast(suffix.count)) }.filter(ChannelFileName.isName)
    }

    /// Returns the present sequences. Unreadable channels keep the sequences of this value.
    func read(again folder: Directory?) -> ChannelSequences {
        var fresh = ChannelSequences()
        // A folder that cannot be listed counts as missing.
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

    /// Returns the channel file. Throws `DocumentRefusal` if it is invalid and `OtherChannel` if it is of another
    /// channel.
    static func document(in bytes: [UInt8], of channel: String) throws -> ChannelDocument {
        let document = try ChannelFormat.parse(try ChannelFormat.envelope(parsing: bytes)).claims
        guard document.channel == channel else { throw OtherChannel(name: document.channel) }
        return document
    }

    /// The file is that of another channel.
    struct OtherChannel: Error, CustomStringConvertible {
        let name: String

        var description: String { "it is the file of the channel \(name)" }
    }

    /// Returns a copy with another sequence of one channel.
    func with(_ sequence: Int, isUrgent: Bool = false, of channel: String) -> ChannelSequences {
        var changed = self
        changed.numbers[channel] = sequence
        if isUrgent { changed.urgent.insert(channel) } else { changed.urgent.remove(channel) }
        return changed
    }

    /// Returns the announcements of the channels whose sequences differ from `before`.
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
