package import BundleFormats
import BundleValues

/// A JSON message from a host to devices. It is not trusted: a device that receives a release message checks its feed.
package enum SyncMessage: Sendable, Equatable {
    /// The first message of a host, with its protocol version.
    case hello(version: Int)
    /// The document of a channel has a new sequence. `isUrgent` is whether its newest release is urgent.
    case release(channel: String, sequence: Int, isUrgent: Bool = false)
    /// A message of another type, which is ignored.
    case unknown(type: String)

    /// The protocol version of this program.
    package static let version = 1
    package static let maximumBytes = 4096

    private static let name = "message"
    private static let longestType = 64

    /// Parses a message. Throws for a member with an invalid value.
    package init(parsing text: String) throws(DocumentRefusal) {
        do {
            let value = try JSONScanner.parse(Array(text.utf8), maximumBytes: Self.maximumBytes)
            self = try Self.read(try MemberReader(value, of: Self.name))
        } catch {
            throw DocumentRefusal(Self.name, error)
        }
    }

    private static func read(_ reader: MemberReader) throws -> SyncMessage {
        let type = try reader.string("type")
        switch type {
        case "hello": return .hello(version: try reader.integer("version"))
        case "release":
            let channel = try reader.string("channel")
            if !ChannelFileName.isName(channel) { throw reader.refusal("channel", ChannelFileName.rule) }
            let sequence = try reader.integer("sequence")
            if sequence == 0 { throw reader.refusal("sequence", "is 0: the first document has 1") }
            let urgent = reader.optional("urgent")
            guard let isUrgent = urgent.map(\.boolValue) ?? false else {
                throw reader.refusal("urgent", "is neither true nor false")
            }
            return .release(channel: channel, sequence: sequence, isUrgent: isUrgent)
        default:
            if type.utf8.count > longestType { throw reader.refusal("type", "has more than \(longestType) bytes") }
            return .unknown(type: type)
        }
    }

    /// The message as JSON.
    package var text: String {
        var object: JSONObject =
            switch self {
            case .hello(let version): ["type": .string("hello"), "version": .integer(version)]
            case .release(let channel, let sequence, _):
                ["type": .string("release"), "channel": .string(channel), "sequence": .integer(sequence)]
            case .unknown(let type): ["type": .string(type)]
            }
        if case .release(_, _, isUrgent: true) = self { object["urgent"] = .bool(true) }
        return String(decoding: JSONWriter.bytes(of: .object(object)), as: UTF8.self)
    }
}
