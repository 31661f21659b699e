/// The name of a channel and of its file, `channels/NAME.json`.
package enum ChannelFileName {
    /// The default channel. Its newest release is the `manifest.json` of the feed (Guide/reference/wire-formats.md).
    package static let standard = "stable"
    /// The message about an invalid name, as the end of a sentence.
    package static let rule =
        "is not a channel name: 1 to 64 of a to z, 0 to 9, dot, dash and underscore, without a leading dot and without .hold at the end"
    private static let suffix = ".json"
    private static let hold = ".hold"

    package static func isName(_ text: String) -> Bool {
        let bytes = text.utf8
        return (1...64).contains(bytes.count) && bytes.first != UInt8(ascii: ".") && !text.hasSuffix(hold)
            && bytes.allSatisfy {
                $0.isASCIIDigit || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || ".-_".utf8.contains($0)
            }
    }

    package static func file(of name: String) -> String { name + suffix }

    /// The file with the holds of a guard for the channel.
    package static func holdFile(of name: String) -> String { name + hold + suffix }

    /// Returns the channel whose file is at `url`. Throws unless the last component is a valid name and `.json`.
    package static func name(in url: FetchURL) throws -> String {
        let path = Array(url.description.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") })
        let file = String(decoding: path[((path.lastIndex(of: UInt8(ascii: "/")) ?? -1) + 1)...], as: UTF8.self)
        let name = file.hasSuffix(suffix) ? String(file.dropLast(suffix.count)) : ""
        guard isName(name) else {
            throw UpdateFailure(
                .configInvalid, subject: url.display,
                "\(url.display) does not name a channel: the URL of a channel file ends in channels/NAME.json.")
        }
        return name
    }
}
