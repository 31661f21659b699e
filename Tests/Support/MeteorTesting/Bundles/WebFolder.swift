import BundleValues
import BundleDisk

/// Builds a Meteor bundle from the folder of a web build.
///
/// Scripts, style sheets and `dynamic/` files become entries of those types, and all other files public assets. As in
/// Meteor, paths start with `app/`, and a colon in a name becomes an underscore (METEOR section 1.4). The top-level
/// `index.html` becomes the page with a runtime config script; without one there is a plain page.
package enum WebFolder {
    /// Returns the bundle of a folder, whose files must not change while it is used. Source maps belong to their scripts,
    /// or are public assets with hashes if `pairsSourceMaps` is false.
    package static func bundle(
        _ folder: String, version: MeteorBundleBuilder.Version = .computed, hashes: HashScheme = .modern,
        pairsSourceMaps: Bool = true
    ) throws -> MeteorBundleBuilder {
        let names = try Directory.open(folder).filePaths().map { bytes in
            guard let name = String(validating: bytes, as: UTF8.self) else {
                throw BundleFolderError(
                    message:
                        "\(folder) holds the name \"\(UntrustedName.display(bytes))\", which is not UTF-8; rename it")
            }
            return name
        }.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        let present = Set(names)
        let paired = pairsSourceMaps ? present : []
        var builder = MeteorBundleBuilder(version, hashes: hashes)
        var taken: [String: String] = [:]
        for name in names where !isSourceMap(name, among: paired) && name != "index.html" {
            let entry = entry(name, in: folder, hasMap: paired.contains(name + ".map"))
            if let other = taken.updateValue(name, forKey: entry.path) {
                throw BundleFolderError(
                    message: "\(other) and \(name) would both become \(entry.path) in the bundle; rename one of them")
            }
            builder.entries.append(entry)
        }
        builder.page.title = String(folder.split(separator: "/").last ?? "client")
        if present.contains("index.html") {
            builder.page.template = try BundleContent.file("\(folder)/index.html").read()
        }
        return builder
    }

    private static func entry(_ name: String, in folder: String, hasMap: Bool) -> BundleEntry {
        let bare = name.replacing(":", with: "_")
        let type = type(of: bare)
        let isCode = type != "asset"
        return BundleEntry(
            path(of: bare), url: "/" + bare, type: type, isCacheable: isCode || namesItsContent(bare),
            .file("\(folder)/\(name)"),
            sourceMap: hasMap && isCode ? .init(.file("\(folder)/\(name).map")) : nil)
    }

    private static func path(of name: String) -> String {
        let isKept = ["packages/", "assets/", "dynamic/"].contains { name.hasPrefix($0) }
        return isKept ? name : "app/" + name
    }

    private static func type(of name: String) -> String {
        if name.hasSuffix(".css") { return "css" }
        guard name.hasSuffix(".js") || name.hasSuffix(".mjs") else { return "asset" }
        return name.hasPrefix("dynamic/") ? "dynamic js" : "js"
    }

    /// Whether the file is an `x.js.map` beside an `x.js`.
    private static func isSourceMap(_ name: String, among names: Set<String>) -> Bool {
        guard name.hasSuffix(".map") else { return false }
        let code = String(name.dropLast(4))
        return names.contains(code) && type(of: code) != "asset"
    }

    /// Whether the last component has sixteen hexadecimal digits in a row.
    static func namesItsContent(_ name: String) -> Bool {
        var run = 0
        for byte in (name.split(separator: "/").last ?? "").utf8 {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
                UInt8(ascii: "A")...UInt8(ascii: "F"):
                run += 1
            default: run = 0
            }
            if run == 16 { return true }
        }
        return false
    }
}
