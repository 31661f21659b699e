// fuzz: max_len=8192
//
// Reads a damaged ledger of the store, as it is and with a correct checksum.
@testable import BundleCore
@testable import BundleValues
@testable import BundleDisk
@testable import BundleSigning

private let scratch: TemporaryDirectory = {
    guard let folder = try? TemporaryDirectory() else { fatalError("a temporary folder can be created") }
    return folder
}()

func fuzz(_ input: [UInt8]) throws {
    let folder = scratch.directory
    try folder.removeFile(StoreLayout.ledger)
    try input.withUnsafeBytes { try folder.createFile(StoreLayout.ledger, with: $0) }
    do {
        let ledger = require(try LedgerFile.read(folder), "an existing file is read")
        try check(ledger)
    } catch let failure as UpdateFailure {
        require(failure.code == .storeDamaged, "an invalid ledger is damage")
    }
    if let ledger = try vouched(input) { try check(ledger) }
}

/// Returns the ledger of the document with a correct checksum.
private func vouched(_ input: [UInt8]) throws -> Ledger? {
    guard var object = (try? JSONScanner.parse(input, maximumBytes: input.count))?.objectValue else { return nil }
    object["checksum"] = nil
    object["checksum"] = .string(try SHA256Digest.of(JSONWriter.bytes(of: .object(object))).hex)
    return try? Ledger(MemberReader(.object(object), of: "ledger"))
}

private func check(_ ledger: Ledger) throws {
    let bytes = JSONWriter.bytes(of: .object(ledger.object))
    let again = require(try vouched(bytes), "a written ledger is read")
    require(again == ledger, "a ledger is read as it was written")
    for list in [ledger.entries.map(\.version), ledger.blocks.map(\.version), ledger.records.map(\.version)] {
        require(Set(list).count == list.count, "each version is unique")
    }
    for version in ledger.mentioned + ledger.entries.map(\.version) {
        require((try? BundlePath(parsing: StoreLayout.tree(version))) != nil, "a version's folder is below the store's")
        require((try? BundlePath(parsing: StoreLayout.receipt(version)))?.parent == nil, "a receipt is one file")
    }
    var changed = ledger
    for version in ledger.entries.map(\.version) { changed.forget(version) }
    require(changed.entries.isEmpty, "all entries can be removed")
}
