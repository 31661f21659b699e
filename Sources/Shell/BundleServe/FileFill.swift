/// Fetches files of a feed that the served folder does not have yet, as a cache does.
package protocol FileFill: Sendable {
    /// Fetches the file at `path`, such as `releases/v1.5.0/client.tar.zst`, into the served folder.
    func fill(_ path: String) async -> FillOutcome
    /// Records that the file at `path` was requested.
    func used(_ path: String)
}

/// The result of a fill.
package enum FillOutcome: Sendable, Equatable {
    /// The folder has the file.
    case present
    /// The feed has no such file.
    case missing
    /// The file is being fetched. The client may ask again after this number of seconds.
    case later(seconds: Int)
}
