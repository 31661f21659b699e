public import BundleSigning

/// One boot attempt, as the ledger remembers it.
public struct Launch: Sendable, Equatable {
    /// How a launch ended.
    public enum Verdict: String, Sendable, CaseIterable {
        case good, faulty
    }

    /// The client that was launched.
    public let name: ClientName
    /// SHA-256 of its token.
    public let tokenSha256: SHA256Digest
    /// When the attempt was made.
    public let at: Timestamp
    /// Whether the client had not yet confirmed a start: it is watched, and falls back if it does not.
    public internal(set) var isTrial: Bool
    /// The shell's verdict; nil while there is none.
    public internal(set) var verdict: Verdict?

    /// A trial without a verdict: if nobody is running it any more, it failed.
    public var isOpenTrial: Bool { isTrial && verdict == nil }
}

/// What the ledger knows about the starts of one installed client.
public struct StartRecord: Sendable, Equatable {
    /// The client.
    public let version: ClientVersion
    /// When it confirmed a start; nil while it never did since it last failed.
    public internal(set) var goodSince: Timestamp?
    /// The failed starts since it was last good, oldest first.
    public internal(set) var failures: [StartFailure]
}
