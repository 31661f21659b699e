import BundleValues
import BundleDisk
import CLibrary

/// Fills an empty folder with the assets of a map.
struct RootBuilder {
    private let root: Directory
    private(set) var warnings: [String] = []
    private var extracted: AssetMap.Extracted?

    /// The last used folders stay open, since neighbors in a map are usually neighbors on the disk.
    private var target: (parent: ArraySlice<UInt8>, folder: Directory)?
    private var source: (root: Directory, parent: ArraySlice<UInt8>, folder: Directory)?
    private var made: Set<BundlePath> = []

    init(_ root: Directory) { self.root = root }

    mutating func build(_ map: AssetMap) throws {
        (warnings, extracted) = (map.warnings, map.extracted)
        var hasIndex = false
        for asset in map.assets {
            if asset.urlPath == BundlePath.index {
                try writeIndex(asset)
                hasIndex = true
            } else {
                try place(asset)
            }
        }
        for file in map.generated {
            try targetFolder(of: file.urlPath).createDurableFile(file.urlPath.name, with: file.bytes)
        }
        if !hasIndex { throw OrganizingError.indexMissing(path: BundlePath.index.string) }
    }

    /// Writes the index page with the shim. All other files are linked.
    private mutating func writeIndex(_ asset: AssetMap.Asset) throws {
        do {
            let folder = try sourceFolder(of: asset)
            let page = try folder.file(asset.path.name).readAll()
            try root.createDurableFile(asset.urlPath.string, with: ShimInjector.inject(into: page))
        } catch {
            switch error.kind {
            case .missing, .unsuitable:
                throw OrganizingError.indexMissing(path: "\(asset.source.path)/\(asset.path)")
            default: throw error
            }
        }
    }

    private mutating func place(_ asset: AssetMap.Asset) throws {
        do {
            try link(asset)
        } catch {
            switch error.kind {
            case .missing, .unsuitable: skip(asset, because: error)
            case .crossesDevice, .tooManyLinks, .permission:
                if try !linkExtracted(asset) { try copy(asset, because: error) }
            default: throw error
            }
        }
    }

    private mutating func link(_ asset: AssetMap.Asset) throws(DiskError) {
        let folder = try sourceFolder(of: asset)
        let name = asset.path.name
        if !asset.isKnownFile { try Self.requireFile(name, in: folder) }
        let target = try targetFolder(of: asset.urlPath)
        try folder.link(name, to: target, as: asset.isKnownFile ? name : asset.urlPath.name)
    }

    /// Links the file from its extracted copy. Returns false if there is none.
    private mutating func linkExtracted(_ asset: AssetMap.Asset) throws -> Bool {
        guard let extracted, extracted.source === asset.source, let place = extracted.urlPaths[asset.path] else {
            return false
        }
        let target = try targetFolder(of: asset.urlPath)
        do {
            let folder = try place.parent.map { try extracted.root.directory($0.string) } ?? extracted.root
            try folder.link(place.name, to: target, as: asset.urlPath.name)
            return true
        } catch let error as DiskError where error.kind != .exists {
            return false
        }
    }

    private mutating func copy(_ asset: AssetMap.Asset, because link: DiskError) throws {
        do {
            let file = try sourceFolder(of: asset).file(asset.path.name)
            let copy = try targetFolder(of: asset.urlPath).file(creating: asset.urlPath.name)
            _ = try file.forEachBlock { try copy.write($0) }
        } catch let error as DiskError {
            throw OrganizingError.notPlaced(urlPath: asset.urlPath.string, link: link, copy: error)
        }
    }

    /// A missing source map is normal; other files are reported.
    private mutating func skip(_ asset: AssetMap.Asset, because error: DiskError) {
        if error.kind == .missing && asset.urlPath.bytes.suffix(4).elementsEqual(".map".utf8) { return }
        warnings.append("\(asset.urlPath) is not served: \(error).")
    }

    /// Throws for a symbolic link, since a hard link to it would also be a symbolic link.
    private static func requireFile(_ name: String, in folder: Directory) throws(DiskError) {
        switch try folder.kind(of: name) {
        case .file: return
        case nil: throw DiskError("link", at: "\(folder.path)/\(name)", code: ENOENT)
        default: throw DiskError("link", at: "\(folder.path)/\(name)", code: EINVAL)
        }
    }

    // MARK: Folders

    private mutating func sourceFolder(of asset: AssetMap.Asset) throws(DiskError) -> Directory {
        let parent = asset.path.parentBytes
        if parent.isEmpty { return asset.source }
        if let source, source.root === asset.source, parent.elementsEqual(source.parent) { return source.folder }
        let folder = try asset.source.directory(String(decoding: parent, as: UTF8.self))
        source = (asset.source, parent, folder)
        return folder
    }

    private mutating func targetFolder(of urlPath: BundlePath) throws(DiskError) -> Directory {
        let parent = urlPath.parentBytes
        if parent.isEmpty { return root }
        if let target, parent.elementsEqual(target.parent) { return target.folder }
        let folder = try folder(urlPath.parent)
        target = (parent, folder)
        return folder
    }

    private mutating func folder(_ path: BundlePath?) throws(DiskError) -> Directory {
        guard let path else { return root }
        if !made.contains(path) {
            try folder(path.parent).makeDirectory(path.name)
            made.insert(path)
        }
        return try root.directory(path.string)
    }
}
