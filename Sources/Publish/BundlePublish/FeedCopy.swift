import ArchiveSource
package import BundleDisk
import BundleValues

/// Files of a feed brought from one place to another.
package enum FeedCopy {
    /// Brings the file `name`, by way of `scratch`; false where there is none, or where the target has one of that name already.
    package static func bring(
        _ name: String, from source: any FeedPlace, to target: any FeedPlace, by scratch: Directory
    ) throws -> Bool {
        let part = randomName("part-")
        let file = try scratch.file(creating: part)
        defer { try? scratch.removeFile(part) }
        guard try source.stream(name, { try file.write($0) }) else { return false }
        return try target.create(name, .file(file))
    }

    /// Brings the document `name` and, where it is a manifest, the archive that it names, into the folder `scratch`.
    package static func bringRelease(_ name: String, from source: any FeedPlace, into scratch: Directory) throws {
        let target = FeedFolder(scratch.path)
        guard try bring(name, from: source, to: target, by: scratch) else { throw missing(name, in: source) }
        guard let record = try target.read(name, maximumBytes: ManifestFormat.maximumBytes),
            let url = try? ManifestFormat.parse(record.bytes).claims.url, !url.contains(":")
        else { return }
        let folder = name.split(separator: "/").dropLast().joined(separator: "/")
        let archive = folder.isEmpty ? url : "\(folder)/\(url)"
        guard try bring(archive, from: source, to: target, by: scratch) else { throw missing(archive, in: source) }
    }

    private static func missing(_ name: String, in place: any FeedPlace) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: "\(place.address)/\(name)",
            "There is no \(UntrustedName.display(name)) at \(place.address): check the address.")
    }
}
