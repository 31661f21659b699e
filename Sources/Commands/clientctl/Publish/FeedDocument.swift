import BundleValues

/// The location of a file in its feed, by its address.
enum FeedDocument {
    /// Returns the number of the last folders in `names`, the path of `file`, that are inside the feed: those of a channel, of the copies
    /// of a channel file, or of a release.
    static func depth(of file: String, in names: [String]) -> Int {
        let (last, before) = (names.last ?? "", names.dropLast().last)
        if before == "releases", (try? SemanticVersion(parsingFolderName: last)) != nil { return 2 }
        if isCopy(file, in: names) { return 2 }
        return last == "channels" || last == "trust" ? 1 : 0
    }

    /// Returns the folder of the feed that contains the file at `url`.
    static func feed(of url: FetchURL) throws -> FetchURL {
        let (names, file) = parts(of: url)
        let up = String(repeating: "../", count: depth(of: file, in: names))
        return try url.resolve(relative: up.isEmpty ? "./" : up)
    }

    /// Returns the channel of the channel file, copy or hold at `url`.
    static func channel(of url: FetchURL) throws -> String {
        let (names, file) = parts(of: url)
        if let name = names.last, isCopy(file, in: names), ChannelFileName.isName(name) { return name }
        if let name = file.dropping(suffix: ".hold.json"), ChannelFileName.isName(name) { return name }
        return try ChannelFileName.name(in: url)
    }

    private static func isCopy(_ file: String, in names: [String]) -> Bool {
        names.dropLast().last == "channels" && file.dropping(suffix: ".json").flatMap { Int($0) } != nil
    }

    private static func parts(of url: FetchURL) -> (folders: [String], file: String) {
        let names = url.path.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        return (names.dropLast(), names.last ?? "")
    }
}
