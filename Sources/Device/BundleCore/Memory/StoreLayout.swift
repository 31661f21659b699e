import BundleFormats
import BundleValues

/// The names of all folders and files of a store (Guide/reference/store.md).
package enum StoreLayout {
    static let clients = "clients"
    static let meteor = "meteor"
    static let receipts = "receipts"
    static let staging = "staging"
    static let downloads = "downloads"
    static let serving = "serving"
    /// The folders that a first run creates before its first file. `serving` may contain the seed already.
    static let folders = [clients, meteor, receipts, staging, downloads, serving]
    static let ledger = "ledger.json"
    /// The previous ledger.
    static let ledgerBefore = "ledger.before.json"
    package static let session = "session.json"
    static let complaints = "complaints.json"
    static let screen = "screen.json"
    static let check = "check.json"
    static let rosterKey = "roster.key.pem"
    static let activation = "activation.json"
    static let lock = "lock"
    /// The kind of a store with programs.
    static let kind = "kind"
    static let previousVersion = "previousVersion"

    /// The folder in `downloads` with the files of interrupted attempts.
    static let interrupted = "interrupted"

    /// The names in one staging area.
    static let stagedTree = "tree"
    static let stagedReceipt = "receipt.json"

    static let attemptPrefix = "attempt-"
    static let trashPrefix = "trash-"
    static let asideSuffix = ".new"
    static let damagedSuffix = ".damaged"

    /// Returns the folder of the trees of a source.
    static func trees(of source: SourceName) -> String {
        switch source {
        case .archive: clients
        case .meteor: meteor
        }
    }

    /// Returns the path of a client's tree, relative to the store.
    static func tree(_ version: ClientVersion) -> String { "\(trees(of: version.source))/\(version.folderName)" }

    static func receipt(_ version: ClientVersion) -> String { "\(ClientName.installed(version)).json" }

    /// Returns the version whose receipt has this file name; nil for any other file.
    static func version(ofReceipt name: String) -> ClientVersion? {
        name.dropping(suffix: ".json").flatMap { ClientName($0)?.version }
    }

    /// Returns the version whose tree has this folder name; nil for any other folder.
    static func version(ofTree name: String, of source: SourceName) -> ClientVersion? {
        switch source {
        case .archive: (try? SemanticVersion(parsingFolderName: name)).map(ClientVersion.archive)
        case .meteor: (try? MeteorVersion(parsing: name)).map(ClientVersion.meteor)
        }
    }
}
