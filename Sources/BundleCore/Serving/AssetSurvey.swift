/// Checks the assets of a bundle before anything is written (METEOR section 5.1).
struct AssetSurvey {
    /// One clause for each broken rule.
    private(set) var findings: [String] = []
    private(set) var own: [(urlPath: BundlePath, path: BundlePath)] = []
    private(set) var inherited: [AssetMap.Asset] = []

    /// By the hash of the name that files and folders collide under.
    private var taken: [UInt64: (path: BundlePath, isFolder: Bool)] = [:]
    private var lastParent: BundlePath?

    init(expectedNames: Int) { taken.reserveCapacity(expectedNames) }

    init(_ assets: [AssetMap.OwnAsset], inheriting parent: AssetMap?) {
        var owned: Set<BundlePath> = []
        for asset in assets {
            let urlPath = path(of: asset.url)
            let file = file(asset.file)
            guard let urlPath else { continue }
            owned.insert(urlPath)
            add(urlPath)
            if let file { own.append((urlPath, file)) }
        }
        for asset in parent?.assets ?? [] where !owned.contains(asset.urlPath) {
            add(asset.urlPath)
            inherited.append(asset)
        }
    }

    // MARK: Names

    private mutating func path(of url: String) -> BundlePath? {
        var bytes = url.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
        if bytes.first == UInt8(ascii: "/") { bytes = bytes.dropFirst() }
        if bytes.isEmpty { return BundlePath.index }
        do throws(BundlePathError) {
            let path = try BundlePath(parsing: Array(bytes))
            guard let rule = Self.hiddenRule(path.bytes) else { return path }
            findings.append("URL path \(UntrustedName.display(url)): percent-encoded \(rule)")
        } catch {
            findings.append("URL path \(UntrustedName.display(url)): \(error.rule)")
        }
        return nil
    }

    private mutating func file(_ text: String) -> BundlePath? {
        do throws(BundlePathError) {
            return try BundlePath(parsing: text)
        } catch {
            findings.append("file path \(UntrustedName.display(text)): \(error.rule)")
            return nil
        }
    }

    /// The rule that the path would break for one who takes percent-encodings off.
    private static func hiddenRule(_ bytes: [UInt8]) -> String? {
        guard bytes.contains(UInt8(ascii: "%")) else { return nil }
        do throws(BundlePathError) {
            _ = try BundlePath(parsing: percentDecoded(bytes))
            return nil
        } catch {
            return error.rule
        }
    }

    private static func percentDecoded(_ bytes: [UInt8]) -> [UInt8] {
        var decoded: [UInt8] = []
        var index = 0
        while index < bytes.count {
            if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.count,
                let high = hexValue(bytes[index + 1]), let low = hexValue(bytes[index + 2])
            {
                decoded.append(high << 4 | low)
                index += 3
            } else {
                decoded.append(bytes[index])
                index += 1
            }
        }
        return decoded
    }

    private static func hexValue(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    // MARK: Collisions

    /// Takes a URL path, and its folders; finds what no file system could hold side by side.
    mutating func add(_ path: BundlePath) {
        addFolders(above: path)
        guard let other = take(path, isFolder: false) else { return }
        findings.append(
            other.path != path
                ? Self.collision(other.path, path)
                : other.isFolder ? Self.clash(path) : "Duplicate normalized URL path: \(path)")
    }

    private mutating func addFolders(above path: BundlePath) {
        if lastParent?.bytes.elementsEqual(path.parentBytes) ?? path.parentBytes.isEmpty { return }
        guard let folder = path.parent else { return }
        addFolders(above: folder)
        lastParent = folder
        guard let other = take(folder, isFolder: true) else { return }
        if other.path != folder {
            findings.append(Self.collision(other.path, folder))
        } else if !other.isFolder {
            findings.append(Self.clash(folder))
        }
    }

    /// Who has the name already; nil where nobody had.
    private mutating func take(_ path: BundlePath, isFolder: Bool) -> (path: BundlePath, isFolder: Bool)? {
        let key = FoldedName.hash(of: path.bytes[...])
        if let other = taken[key] { return other }
        taken[key] = (path, isFolder)
        return nil
    }

    private static func collision(_ first: BundlePath, _ second: BundlePath) -> String {
        "URL paths \(first) and \(second) differ only in case or normalisation"
    }

    private static func clash(_ path: BundlePath) -> String { "URL path \(path) is a file and a folder" }
}
