import BundleSigning

/// A picture of a screen: a JPEG or a PNG, by its first and last bytes. Only a browser decodes it.
package struct ScreenPicture: Sendable, Equatable {
    /// The largest size in bytes.
    package static let maximumBytes = 48 << 10

    package enum Format: String, Sendable {
        case jpeg = "image/jpeg"
        case png = "image/png"

        fileprivate var first: [UInt8] {
            switch self {
            case .jpeg: [0xFF, 0xD8, 0xFF]
            // The signature, and the length and name of the first chunk.
            case .png: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 0x0D, 0x49, 0x48, 0x44, 0x52]
            }
        }

        fileprivate var last: [UInt8] {
            switch self {
            case .jpeg: [0xFF, 0xD9]
            case .png: [0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82]
            }
        }
    }

    package let format: Format
    package let bytes: [UInt8]

    /// Returns nil for bytes that are neither a JPEG nor a PNG, and for more than `maximumBytes`.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count <= Self.maximumBytes,
            let format = [Format.jpeg, .png].first(where: { format in
                bytes.starts(with: format.first) && bytes.suffix(format.last.count).elementsEqual(format.last)
            })
        else { return nil }
        (self.format, self.bytes) = (format, bytes)
    }
}

/// The message of a device to a roster with a picture of its screen. `Guide/reference/wire-formats.md` specifies it.
package struct PicturePost: Sendable, Equatable {
    /// The largest size of a message: a picture in base64, and the other members.
    package static let maximumBytes = 72 << 10
    private static let members = ["schema", "device", "kind", "taken", "picture"]

    /// A roster keeps one picture of each kind.
    package enum Kind: String, Sendable, CaseIterable {
        case last
        /// The screen of a start that failed.
        case failed

        /// The end of the path of a picture, below the page of its device.
        private var path: String { self == .last ? "/picture" : "/failed-picture" }

        /// Returns the path of a picture of `device` below a roster.
        package func path(of device: String) -> String { device + path }

        /// Returns the device and the kind that `path` names; nil for another path.
        package static func place(_ path: String) -> (device: String, kind: Kind)? {
            for kind in allCases where path.hasSuffix(kind.path) {
                let device = String(path.dropLast(kind.path.count))
                if RosterPost.isDevice(device) { return (device, kind) }
            }
            return nil
        }
    }

    /// The 16 hex digits of the group that contains only this device.
    package let device: String
    package let kind: Kind
    /// The time of the picture, by the clock of the device.
    package let taken: Timestamp
    package let picture: ScreenPicture

    package init(device: String, kind: Kind, taken: Timestamp, picture: ScreenPicture) {
        (self.device, self.kind, self.taken, self.picture) = (device, kind, taken, picture)
    }

    /// Returns the address for pictures of the roster at `url`.
    package static func address(of url: FetchURL) throws -> FetchURL { try FetchURL(parsing: "\(url)/picture") }

    /// Parses a message. Throws `JSONError` or `MemberReader.Refusal` if it breaks the specification.
    package init(parsing bytes: [UInt8]) throws {
        let value = try JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes, maximumDepth: 2)
        let reader = try MemberReader(value, of: "message")
        guard reader.object.members.map(\.name) == Self.members, try reader.integer("schema") == 1 else {
            throw reader.refusal("schema", "is not 1, or another member is wrong")
        }
        let device = try reader.string("device")
        if !RosterPost.isDevice(device) { throw reader.refusal("device", "is not 16 hex digits") }
        guard let kind = Kind(rawValue: try reader.string("kind")) else {
            throw reader.refusal("kind", "is not a known value")
        }
        guard let picture = (try? Base64.decode(try reader.string("picture"))).flatMap(ScreenPicture.init) else {
            throw reader.refusal(
                "picture", "is not a JPEG or a PNG of at most \(ScreenPicture.maximumBytes) bytes in base64")
        }
        self.init(device: device, kind: kind, taken: try reader.timestamp("taken"), picture: picture)
    }

    /// The body of the message.
    package var bytes: [UInt8] {
        let values: [JSONValue] = [
            .integer(1), .string(device), .string(kind.rawValue), .string(taken.description),
            .string(Base64.encode(picture.bytes)),
        ]
        var object: JSONObject = [:]
        for (name, value) in zip(Self.members, values) { object[name] = value }
        return JSONWriter.bytes(of: .object(object))
    }
}
