/// A channel's name, which is also its file's: `channels/NAME.json`.
package enum ChannelFileName {
    /// The default channel: the one whose newest release a feed's `manifest.json` is (CONTRACT section 3).
    package static let standard = "stable"
    /// What a name that is none is refused with.
    package static let rule =
        "is no channel's name: 1 to 64 of a to z, 0 to 9, dot, dash and underscore, no dot in front and no .hold at the end"
    private static let suffix = ".json"
    private static let hold = ".hold"

    /// Whether `text` may name a channel.
    package static func isName(_ text: String) -> Bool {
        let bytes = text.utf8
        return (1...64).contains(bytes.count) && bytes.first != UInt8(ascii: ".") && !text.hasSuffix(hold)
            && bytes.allSatisfy {
                $0.isASCIIDigit || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || ".-_".utf8.contains($0)
            }
    }

    /// The file of the channel `name`.
    package static func file(of name: String) -> String { name + suffix }

    /// The file of what a guard says of the channel `name`.
    package static func holdFile(of name: String) -> String { name + hold + suffix }

    /// The channel whose document is at `url`: what its last component is called without `.json`.
    package static func name(in url: FetchURL) throws -> String {
        let path = Array(url.description.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") })
        let file = String(decoding: path[((path.lastIndex(of: UInt8(ascii: "/")) ?? -1) + 1)...], as: UTF8.self)
        let name = file.hasSuffix(suffix) ? String(file.dropLast(suffix.count)) : ""
        guard isName(name) else {
            throw UpdateFailure(
                .configInvalid, subject: url.display,
                "\(url.display) names no channel: the address of a channel document ends in channels/NAME.json.")
        }
        return name
    }
}
