// fuzz: max_len=420
//
// Reads versions of both sources, one per line. They print as they were read, and precedence is a total order.
@testable import BundleFormats
@testable import BundleCore
@testable import BundleValues

func fuzz(_ input: [UInt8]) throws {
    let texts = input.lines.prefix(4).map { String(decoding: $0, as: UTF8.self) }
    let versions = texts.compactMap(semantic)
    for version in versions { checkNames(.archive(version)) }
    for version in texts.compactMap({ try? MeteorVersion(parsing: $0) }) { checkMeteor(version) }
    for left in versions {
        for right in versions {
            checkPair(left, right)
            for third in versions where left < right && right < third { require(left < third, "order is transitive") }
        }
    }
}

private func semantic(_ text: String) -> SemanticVersion? {
    let version = try? SemanticVersion(parsing: text)
    if let version {
        require(version.description.utf8.elementsEqual(text.utf8), "a version prints as it was read")
        require((try? SemanticVersion(parsingArgument: text)) == version, "a version is a valid argument")
        require(
            (try? SemanticVersion(parsingArgument: "v" + text)) == version, "a version with a v is a valid argument")
        require(text.utf8.allSatisfy { 0x2D...0x7A ~= $0 && $0 != 0x2F }, "a version consists of plain characters")
    }
    require((try? SemanticVersion(parsingFolderName: "v" + text)) == version, "a folder name is v and the version")
    return version
}

private func checkMeteor(_ version: MeteorVersion) {
    let path = require(try? BundlePath(parsing: version.description), "a Meteor version is a path")
    require(path.parent == nil, "a Meteor version has one component")
    checkNames(.meteor(version))
}

/// Checks that the version can be read from folders, receipts and names.
private func checkNames(_ version: ClientVersion) {
    require(
        (try? ClientVersion(parsing: version.description, of: version.source)) == version, "a version is read back")
    let name = ClientName.installed(version)
    require(ClientName(name.description) == name, "a name is read back")
    require(
        StoreLayout.version(ofReceipt: StoreLayout.receipt(version)) == version, "a receipt name contains its version")
    require(
        StoreLayout.version(ofTree: version.folderName, of: version.source) == version, "a folder leads to its version"
    )
    require((try? BundlePath(parsing: version.folderName))?.parent == nil, "a folder is one component")
}

private func checkPair(_ left: SemanticVersion, _ right: SemanticVersion) {
    let answers = [left < right, left == right, right < left].count { $0 }
    require(answers == 1, "exactly one of less, equal and greater is true")
    require((left < right) == precedes(left.description, right.description), "the order matches the specification")
    if left == right { require(left.hashValue == right.hashValue, "equal versions have equal hashes") }
    let range = try? ShellRange(minimum: left, maximum: right)
    require((range == nil) == (right < left), "a range is not empty")
}

// MARK: A second implementation of section 11 of the specification

private func precedes(_ left: String, _ right: String) -> Bool {
    let (first, second) = (parts(left), parts(right))
    for (one, other) in zip(first.core, second.core) where one != other { return isLess(one, other) }
    if first.words.isEmpty || second.words.isEmpty { return !first.words.isEmpty && second.words.isEmpty }
    for (one, other) in zip(first.words, second.words) where one != other { return isLess(one, other) }
    return first.words.count < second.words.count
}

private func parts(_ text: String) -> (core: [Substring], words: [Substring]) {
    let halves = text.split(separator: "-", maxSplits: 1)
    return (halves[0].split(separator: "."), halves.count == 1 ? [] : halves[1].split(separator: "."))
}

private func isLess(_ left: Substring, _ right: Substring) -> Bool {
    let areNumbers = [left, right].map { $0.allSatisfy { "0"..."9" ~= $0 } }
    switch (areNumbers[0], areNumbers[1]) {
    case (true, true): return left.count != right.count ? left.count < right.count : left < right
    case (true, false): return true
    case (false, true): return false
    case (false, false): return left.utf8.lexicographicallyPrecedes(right.utf8)
    }
}
