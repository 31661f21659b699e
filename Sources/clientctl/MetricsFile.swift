import ArgumentParser
import BundleCore
import BundleDisk

/// A file for the textfile collector of Prometheus's node_exporter: replaced whole, so that nobody reads half of it.
struct MetricsFile {
    private let folder: Directory
    private let name: String

    /// In a folder that must be there, under a name that the collector reads.
    init(_ path: String) throws {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        name = String(parts.last ?? "")
        guard name.hasSuffix(".prom"), name.count > ".prom".count else {
            throw ValidationError(
                "--metrics-file takes a name that ends in .prom, which is what node_exporter reads; not "
                    + "\(UntrustedName.display(path)).")
        }
        let parent = parts.dropLast().joined(separator: "/")
        folder = try Directory.open(parts.count == 1 ? "." : parent.isEmpty ? "/" : parent)
    }

    /// Puts `text` in the place of what was there. Anybody may read it.
    func write(_ text: String) throws(DiskError) {
        try folder.replaceBriefly(name, with: Array(text.utf8), mode: 0o644)
    }
}
