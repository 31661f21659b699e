import ArgumentParser
import BundleValues
import BundleDisk

/// A file for the textfile collector of Prometheus's node_exporter: replaced whole, so that nobody reads half of it.
struct MetricsFile {
    let folder: String
    private let name: String

    /// Under a name that the collector reads.
    init(_ path: String) throws {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        name = String(parts.last ?? "")
        guard name.hasSuffix(".prom"), name.count > ".prom".count else {
            throw ValidationError(
                "--metrics-file takes a name that ends in .prom, which is what node_exporter reads; not "
                    + "\(UntrustedName.display(path)).")
        }
        let parent = parts.dropLast().joined(separator: "/")
        folder = parts.count == 1 ? "." : parent.isEmpty ? "/" : parent
    }

    /// Puts `text` in the place of what was there. Anybody may read it. The folder may come late, and be replaced: no screen stays
    /// dark for want of it.
    func write(_ text: String) throws(DiskError) {
        try Directory.open(folder).replaceFileWithoutSync(name, with: Array(text.utf8), mode: 0o644)
    }

    /// Takes it away.
    func remove() throws(DiskError) { try Directory.open(folder).removeFile(name) }
}
