// fuzz: max_len=8192
//
// The store's ledger as a disk may have left it; once as it is, once with a checksum that fits.
@testable import BundleCore
@testable import BundleValues
@testable import BundleDisk
@testable import BundleSigning

private let scratch: TemporaryDirectory = {
    guard let folder = try? TemporaryDirectory() else { fatalError("no temporary folder") }
    return folder
}()

func fuzz(_ input: [UInt8]) throws {
    let folder = scratch.directory
    try folder.removeFile(StoreLayout.ledger)
    try input.withUnsafeBytes { try folder.createFile(StoreLayout.ledger, $0) }
    do {
        let ledger = require(try LedgerFile.read(folder), "a file that is there is read")
        try check(ledger)
    } catch let failure as UpdateFailure {
        require(failure.code == .storeDamaged, "what is no ledger is damage")
    }
    if let ledger = try vouched(input) { try check(ledger) }
}

/// The ledger of the document with a checksum of its own.
private func vouched(_ input: [UInt8]) throws -> Ledger? {
    guard var object = (try? JSONScanner.parse(input, maximumBytes: input.count))?.objectValue else { return nil }
    object["checksum"] = nil
    if object["schema"] != .integer(1) {
        object["checksum"] = .string(try SHA256Digest.of(JSONWriter.bytes(of: .object(object))).hex)
    }
    return try? Ledger(MemberReader(.object(object), of: "ledger"))
}

private func check(_ ledger: Ledger) throws {
    let bytes = JSONWriter.bytes(of: .object(ledger.object))
    let again = require(try vouched(bytes), "a written ledger is read")
    require(again == ledger, "as it was written")
    for list in [ledger.entries.map(\.version), ledger.blocks.map(\.version), ledger.records.map(\.version)] {
        require(Set(list).count == list.count, "each version once")
    }
    for version in ledger.mentioned + ledger.entries.map(\.version) {
        require((try? BundlePath(parsing: StoreLayout.tree(version))) != nil, "a version's folder is below the store's")
        require((try? BundlePath(parsing: StoreLayout.receipt(version)))?.parent == nil, "a receipt is one file")
    }
    var changed = ledger
    for version in ledger.entries.map(\.version) { changed.forget(version) }
    require(changed.entries.isEmpty, "everything can be forgotten")
}
