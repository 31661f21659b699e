/// What the server says about its clients' versions: one document for each architecture (METEOR section 7.3).
struct ClientVersions: Sendable, Equatable {
    /// The document of servers before Meteor 1.7.1; on later ones a tombstone.
    static let legacy = "version-cordova"
    /// The text of a tombstone.
    static let outdated = "outdated"
    private static let mostDocuments = 32

    private let architecture: String
    /// The versions by document; nil where a document states none.
    private var documents: [String: String?] = [:]
    /// Documents sent since the subscription began.
    private var sent: Set<String> = []
    private var hasArchitectures = false
    /// Whether the server has sent all that it had when the subscription began.
    private(set) var isReady = false

    init(architecture: String) {
        self.architecture = architecture
    }

    /// A subscription begins: the server sends everything again, and what it does not send is gone when it is `ready`.
    mutating func begin() {
        isReady = false
        hasArchitectures = false
        sent = []
    }

    /// The server has sent everything.
    mutating func ready() {
        isReady = true
        documents = documents.filter { sent.contains($0.key) }
    }

    /// A document came; it replaces one of the same name.
    mutating func added(_ change: DocumentChange) {
        guard mayKeep(change.id) else { return }
        documents[change.id] = .some(nil)
        merge(change)
    }

    /// Fields of a document changed; those that are not mentioned stay.
    mutating func changed(_ change: DocumentChange) {
        guard mayKeep(change.id) else { return }
        merge(change)
    }

    /// A document is gone: its version is not known.
    mutating func removed(_ id: String) {
        documents[id] = nil
        sent.remove(id)
    }

    /// The version of the watched client on the server; nil while it is not known.
    ///
    /// What is stated for the architecture counts; before 1.7.1, when there were no architectures, the one document of that time.
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

    /// Others do not matter, and a server must not fill the memory.
    private func mayKeep(_ id: String) -> Bool {
        if id == architecture || id == Self.legacy || documents[id] != nil { return true }
        return isArchitecture(id) && documents.count < Self.mostDocuments
    }

    private func isArchitecture(_ id: String) -> Bool { id == architecture || id.hasPrefix("web.") }
}
