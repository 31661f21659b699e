/// The client versions that the server publishes, one document for each architecture (METEOR section 7.3).
struct ClientVersions: Sendable, Equatable {
    /// The document of servers before Meteor 1.7.1. Later servers publish a tombstone under this name.
    static let legacy = "version-cordova"
    /// The version in a tombstone.
    static let outdated = "outdated"
    private static let mostDocuments = 32

    private let architecture: String
    /// The versions by document; nil for a document without a version.
    private var documents: [String: String?] = [:]
    /// The documents received since the subscription started.
    private var sent: Set<String> = []
    private var hasArchitectures = false
    /// Whether the server has sent all documents of the subscription.
    private(set) var isReady = false

    init(architecture: String) { self.architecture = architecture }

    /// A subscription starts. The server sends all documents again, and those missing at `ready` no longer exist.
    mutating func begin() {
        isReady = false
        hasArchitectures = false
        sent = []
    }

    /// The server has sent all documents.
    mutating func ready() {
        isReady = true
        documents = documents.filter { sent.contains($0.key) }
    }

    /// The server sent a document, which replaces an earlier one.
    mutating func added(_ change: DocumentChange) {
        guard mayKeep(change.id) else { return }
        documents[change.id] = .some(nil)
        merge(change)
    }

    /// The server sent changed fields of a document.
    mutating func changed(_ change: DocumentChange) {
        guard mayKeep(change.id) else { return }
        merge(change)
    }

    /// The server removed a document.
    mutating func removed(_ id: String) {
        documents[id] = nil
        sent.remove(id)
    }

    /// The server's version of the watched client, if known.
    ///
    /// It is the version of the architecture, or of the single document before Meteor 1.7.1.
    var current: String? {
        guard isReady else { return nil }
        let stated = hasArchitectures ? documents[architecture] : documents[Self.legacy]
        guard let version = stated ?? nil, version != Self.outdated else { return nil }
        return version
    }

    private mutating func merge(_ change: DocumentChange) {
        sent.insert(change.id)
        if isArchitecture(change.id) { hasArchitectures = true }
        switch change.version {
        case .unmentioned: documents[change.id] = documents[change.id] ?? .some(nil)
        case .stated(let version): documents[change.id] = version
        case .none: documents[change.id] = .some(nil)
        }
    }

    /// Ignores other documents, so that a server cannot fill the memory.
    private func mayKeep(_ id: String) -> Bool {
        if id == architecture || id == Self.legacy || documents[id] != nil { return true }
        return isArchitecture(id) && documents.count < Self.mostDocuments
    }

    private func isArchitecture(_ id: String) -> Bool { id == architecture || id.hasPrefix("web.") }
}
