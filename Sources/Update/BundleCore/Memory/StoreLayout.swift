import BundleValues

/// Every folder and file name of a store, in one place (CONTRACT section 5).
package enum StoreLayout {
    static let clients = "clients"
    static let meteor = "meteor"
    static let receipts = "receipts"
    static let staging = "staging"
    static let downloads = "downloads"
    static let serving = "serving"
    static let ledger = "ledger.json"
    /// The ledger before the last change.
    static let ledgerBefore = "ledger.before.json"
    package static let session = "session.json"
    static let complaints = "complaints.json"
    static let screen = "screen.json"
    static let lock = "lock"
    static let previousVersion = "previousVersion"

    /// Inside `downloads`: what an attempt with a journal left.
    static let interrupted = "interrupted"

    /// Inside one staging area.
    static let stagedTree = "tree"
    static let stagedReceipt = "receipt.json"

    static let attemptPrefix = "attempt-"
    static let trashPrefix = "trash-"
    static let asideSuffix = ".new"
    static let damagedSuffix = ".damaged"

    /// The folder of the trees of a source.
    static func trees(of source: SourceName) -> String {
        switch source {
        case .archive: clients
        case .meteor: meteor
        }
    }

    /// The path of a client's tree from the store's folder.
    static func tree(_ version: ClientVersion) -> String { "\(trees(of: version.source))/\(version.folderName)" }

    static func receipt(_ version: ClientVersion) -> String { "\(ClientName.installed(version)).json" }

    /// The version whose receipt has this file name; nil for any other file.
    static func version(ofReceipt name: String) -> ClientVersion? {
        name.dropping(suffix: ".json").flatMap { ClientName($0)?.version }
    }

    /// The version whose tree has this folder name below the folder of its source; nil for any other folder.
    static func version(ofTree name: String, of source: SourceName) -> ClientVersion? {
        switch source {
        case .archive: (try? SemanticVersion(parsingFolderName: name)).map(ClientVersion.archive)
        case .meteor: (try? MeteorVersion(parsing: name)).map(ClientVersion.meteor)
        }
    }
}
