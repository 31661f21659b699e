package import BundleDisk

/// Where a feed lies, as an operator writes it. Each case has its `FeedLocation`.
package enum LocationAddress: Equatable, Sendable, CustomStringConvertible {
    case folder(String)
    case bucket(BucketAddress)

    /// The forms of an address, for help and messages.
    package static let forms = "a folder or s3://bucket/prefix"

    /// Returns nil for a URL that is not the address of a bucket, including a misspelled one such as `s3:/bucket`.
    package init?(parsing text: String) {
        if let bucket = BucketAddress(parsing: text) {
            self = .bucket(bucket)
        } else if text.contains("://")
            || ["s3:", "http:", "https:", "file:"].contains(where: text.lowercased().hasPrefix)
        {
            return nil
        } else {
            self = .folder(text)
        }
    }

    /// Returns whether `text`, which may be invalid, names a bucket or a file in one.
    package static func isInBucket(_ text: String) -> Bool { text.hasPrefix(BucketAddress.scheme) }

    package var description: String {
        switch self {
        case .folder(let path): path
        case .bucket(let address): address.description
        }
    }

    /// The path of the folder; nil for a bucket.
    package var folder: String? { if case .folder(let path) = self { path } else { nil } }

    /// Throws `DiskError` if the address is that of a folder that does not exist.
    package func requireExists() throws(DiskError) {
        if let folder { _ = try Directory.open(folder) }
    }
}
