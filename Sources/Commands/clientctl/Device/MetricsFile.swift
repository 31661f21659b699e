import ArgumentParser
import BundleValues
import BundleDisk

/// A file for the textfile collector of Prometheus's node_exporter. Each write replaces the file, so that readers never see a part of it.
struct MetricsFile {
    let folder: String
    private let name: String

    /// Creates a file at `path`. Throws `ValidationError` if the collector does not read files of this name.
    init(_ path: String) throws {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        name = String(parts.last ?? "")
        guard name.hasSuffix(".prom"), name.count > ".prom".count else {
            throw ValidationError(
                "--metrics-file takes a name that ends in .prom, because node_exporter reads no other files, not "
                    + "\(UntrustedName.display(path)).")
        }
        let parent = parts.dropLast().joined(separator: "/")
        folder = parts.count == 1 ? "." : parent.isEmpty ? "/" : parent
    }

    /// Replaces the file by `text`. All users may read it. Opens the folder each time, because it may be created late or be replaced.
    func write(_ text: String) throws(DiskError) {
        try Directory.open(folder).replaceFileWithoutSync(name, with: Array(text.utf8), mode: 0o644)
    }

    func remove() throws(DiskError) { try Directory.open(folder).removeFile(name) }
}
