import BundleDisk
import Glibc

enum VersionFolders {
    /// Returns the folders by version: each of `folders` with a manifest, and the subfolders of the others.
    static func find(_ folders: [String]) throws -> [String: String] {
        var found: [String: String] = [:]
        for folder in folders {
            if hasManifest(folder) {
                found[String(folder.split(separator: "/").last ?? "version")] = folder
                continue
            }
            for entry in try Directory.open(folder).entries() {
                let name = String(decoding: entry.name, as: UTF8.self)
                if hasManifest("\(folder)/\(name)") { found[name] = "\(folder)/\(name)" }
            }
        }
        return found
    }

    private static func hasManifest(_ folder: String) -> Bool { File.exists("\(folder)/manifest.json") }
}

/// Waits for the work of another thread.
enum Patience {
    /// Returns true as soon as the condition is true, and false after a minute.
    static func wait(until condition: () -> Bool) -> Bool {
        for _ in 0..<12_000 {
            if condition() { return true }
            poll(nil, 0, 5)
        }
        return false
    }
}
