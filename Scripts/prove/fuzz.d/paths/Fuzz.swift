// fuzz: max_len=1200
//
// Reads paths as bytes, as entry names and as URL paths, and checks for collisions.
@testable import BundleFormats
@testable import ArchiveSource
@testable import BundleCore
@testable import BundleValues

func fuzz(_ input: [UInt8]) throws {
    check(refusing { () throws(BundlePathError) in try BundlePath(parsing: input) }, "bytes")
    for isDirectory in [false, true] {
        let path = refusing { () throws(BundlePathError) in
            try BundlePath(archiveEntryName: input, isDirectory: isDirectory)
        }
        check(path, "an entry's name")
        if let path {
            require(isEntry(path, of: input, isDirectory), "an entry's name is the path, with ./ before or / behind")
        }
    }
    if let text = String(validating: input, as: UTF8.self) { checkURL(text) }
    checkCollisions(input)
}

private func refusing(_ make: () throws(BundlePathError) -> BundlePath) -> BundlePath? {
    do throws(BundlePathError) { return try make() } catch {
        require(isPrintable(error.description), "a refusal is one printable line")
        return nil
    }
}

private func isPrintable(_ text: String) -> Bool {
    text.unicodeScalars.allSatisfy { ![.control, .format, .lineSeparator].contains($0.properties.generalCategory) }
}

private func check(_ path: BundlePath?, _ origin: String) {
    guard let path else { return }
    let bytes = path.bytes
    require(!bytes.isEmpty && bytes.count <= 1024, "\(origin): 1 to 1024 bytes")
    require(bytes.first != 0x2F && bytes.last != 0x2F, "\(origin): relative, without a slash at the end")
    require(!bytes.contains { $0 < 0x20 || $0 == 0x7F || $0 == 0x5C }, "\(origin): no control byte, no backslash")
    let components = bytes.split(separator: 0x2F, omittingEmptySubsequences: false)
    require(components.count <= 32 && components.allSatisfy { 1...255 ~= $0.count }, "\(origin): depth and lengths")
    require(!components.contains { $0.elementsEqual(".".utf8) || $0.elementsEqual("..".utf8) }, "\(origin): no dots")
    require(String(validating: bytes, as: UTF8.self) == path.string, "\(origin): UTF-8")
    require((try? BundlePath(parsing: bytes)) == path, "\(origin): parses to itself")
    require((try? BundlePath(parsing: path.string)) == path, "\(origin): parses to itself as text")
    if let parent = path.parent {
        require((try? BundlePath(parsing: parent.bytes)) == parent, "\(origin): its folder is a path")
        require(parent.bytes + [0x2F] + path.nameBytes == bytes, "\(origin): is its folder and its name")
    }
}

private func isEntry(_ path: BundlePath, of name: [UInt8], _ isDirectory: Bool) -> Bool {
    var rest = name[...]
    if rest.count == path.bytes.count + 2 || rest.count == path.bytes.count + 3, rest.starts(with: [0x2E, 0x2F]) {
        rest = rest.dropFirst(2)
    }
    if isDirectory, rest.count == path.bytes.count + 1, rest.last == 0x2F { rest = rest.dropLast() }
    return rest.elementsEqual(path.bytes)
}

private func checkURL(_ text: String) {
    guard let path = try? BundlePath(url: text) else { return }
    check(path, "a URL")
    // The decoded path must not lead above the root.
    let decoded = PercentEncoding.decode(path.bytes)
    require((try? BundlePath(parsing: decoded)) != nil, "a decoded URL path is valid")
    guard path != .index else { return }
    require((try? BundlePath(url: "/" + path.string)) == path, "a URL path is read as it was written")
}

private func checkCollisions(_ input: [UInt8]) {
    var collisions = PathCollisions(of: "path")
    var registry = NameRegistry(expectedNames: 0)
    var taken: [BundlePath] = []
    for line in input.lines.prefix(8) {
        guard let path = try? BundlePath(parsing: line) else { continue }
        let isFree = collisions.add(path).isEmpty
        let isRegistered = (try? registry.addFile(path)) != nil
        for other in taken where FoldedName(other.bytes) == FoldedName(path.bytes) {
            require(
                FoldedName.hash(of: other.bytes[...]) == FoldedName.hash(of: path.bytes[...]),
                "equal names have equal hashes")
            require(!isFree && !isRegistered, "names that fold to the same text collide")
        }
        // A refusal rejects the whole archive or manifest, so no further path follows.
        if !isFree || !isRegistered {
            require(isFree == isRegistered, "archives and Meteor manifests agree about collisions")
            return
        }
        taken.append(path)
    }
}
