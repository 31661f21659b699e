import BundleFormats
import ArgumentParser
import BundleCore
import BundleDisk
import BundleFetch
import BundlePublish
import BundleValues
import CLibrary

extension Wiring {
    /// Returns the address in an argument, which is a URL or the path of a file.
    static func url(_ text: String) throws -> FetchURL {
        if text.contains("://") { return try FetchURL(parsing: text) }
        return try FetchURL(filePath: Array(try absolute(text).utf8))
    }

    /// Returns the location of the feed in `--feed`.
    static func location(
        _ feed: String?, bucket: BucketOptions, progress: Progress? = nil
    ) throws -> any FeedLocation {
        let text = try FlagValue.required(feed, of: "feed")
        let location = try location(at: text, bucket.reading, terms: bucket.terms(), progress: progress)
        try bucket.requireBucket(location)
        return location
    }

    /// Returns the location of a feed at any address, for a command that only reads. Throws `ValidationError` if `text` is neither a folder
    /// nor a bucket.
    static func location(
        at text: String, _ reading: BucketReading, terms: BucketTerms = BucketTerms(), progress: Progress? = nil
    ) throws -> any FeedLocation {
        guard let address = LocationAddress(parsing: text) else {
            throw ValidationError(
                "--feed takes a folder, or a bucket such as s3://bucket/prefix (letters, digits and ._~- only), not "
                    + "\(UntrustedName.display(text)).")
        }
        switch address {
        case .folder(let path):
            try requireLocal(path)
            return FeedFolder(path)
        case .bucket(let address):
            let client = try reading.client(address)
            if let progress { client.progress = progress.uploaded }
            return BucketLocation(address, client: client, terms: terms)
        }
    }

    /// Throws `ValidationError` for an address of another machine, such as scp and rsync accept. No device would see a local folder with
    /// this name.
    private static func requireLocal(_ text: String) throws {
        guard text.prefix(while: { $0 != "/" }).contains(":") else { return }
        let shown = UntrustedName.display(text)
        throw ValidationError(
            "\(shown) names another machine, and clientctl only writes to folders and buckets. Publish to a local folder and "
                + "copy it with rsync, archives first; write ./\(shown) if it is a folder.")
    }

    /// Returns true if `path` is `folder` or below it. Compares names only and follows no links.
    static func isInside(_ path: String, folder: String) throws -> Bool {
        func parts(_ path: String) throws -> [Substring] {
            try absolute(path).split(separator: "/").reduce(into: []) { parts, part in
                if part == ".." { _ = parts.popLast() } else if part != "." { parts.append(part) }
            }
        }
        return try parts(path).starts(with: parts(folder))
    }

    /// The source of a document to show or verify.
    enum DocumentSource {
        /// A local file by its path.
        case file(String)
        case web(FetchURL)
        /// A document in a bucket: its feed, and its path below that.
        case stored(any FeedLocation, path: String)
    }

    /// Returns the source of the document at `text`; of a feed, this is the manifest. Throws `UpdateFailure` for a folder without one.
    static func document(_ text: String, _ reading: BucketReading) throws -> DocumentSource {
        if LocationAddress.isInBucket(text) {
            let parts = text.split(separator: "/").map(String.init)
            let isDocument = parts.count > 2 && parts.last?.hasSuffix(".json") == true
            let name = isDocument ? parts[parts.count - 1] : "manifest.json"
            let above = isDocument ? parts.dropLast() : parts[...]
            let depth = FeedDocument.depth(of: name, in: Array(above.dropFirst(2)))
            let feed = parts[0] + "//" + above.dropFirst().dropLast(depth).joined(separator: "/")
            return .stored(
                try location(at: feed, reading), path: (above.suffix(depth) + [name]).joined(separator: "/"))
        }
        if text.contains("://") { return .web(try FetchURL(parsing: text)) }
        let folder: Directory
        do throws(DiskError) {
            folder = try Directory.open(text)
        } catch {
            if error.kind == .unsuitable { return .file(text) }
            throw error
        }
        if case .file? = try folder.kind(of: "manifest.json") { return .file("\(text)/manifest.json") }
        throw UpdateFailure(
            .configInvalid, subject: text,
            "\(text) is a folder without a manifest.json. Give a feed, or a manifest, channel file, trust root or archive in it."
        )
    }

    /// Returns the absolute path. Throws `DiskError` if the working folder does not exist.
    static func absolute(_ path: String) throws -> String {
        if path.hasPrefix("/") { return path }
        guard let folder = getcwd(nil, 0) else { throw DiskError("find", at: ".", code: errno) }
        defer { free(folder) }
        return "\(String(cString: folder))/\(path)"
    }
}
