/// Every folder and file name of a store, in one place (CONTRACT section 5).
enum StoreLayout {
    static let clients = "clients"
    static let receipts = "receipts"
    static let staging = "staging"
    static let downloads = "downloads"
    static let serving = "serving"
    static let ledger = "ledger.json"
    static let lock = "lock"
    static let previousVersion = "previousVersion"

    /// Inside one staging area.
    static let stagedTree = "tree"
    static let stagedReceipt = "receipt.json"

    static let attemptPrefix = "attempt-"
    static let trashPrefix = "trash-"
    static let asideSuffix = ".new"

    static func receipt(_ version: SemanticVersion) -> String { version.folderName + ".json" }

    /// The version whose receipt has this file name; nil for any other file.
    static func version(ofReceipt name: String) -> SemanticVersion? {
        guard name.hasSuffix(".json") else { return nil }
        return try? SemanticVersion(parsingFolderName: name.dropLast(5))
    }
}
