package import BundleDisk
import CLibrary

/// Whether another user may have written a file that controls this program.
package enum OwnFile {
    /// The reason why a file is not used.
    package enum ForeignWriter: Sendable, Equatable {
        /// It belongs to another user than that of this process, who is not root.
        case foreign(owner: UInt32)
        /// Its group or others may write to it.
        case writable
    }

    /// Returns the reason why `user` does not use a file of `owner` with `mode`; nil if only `user` and root may write to it.
    package static func judge(owner: UInt32, mode: UInt32, user: UInt32) -> ForeignWriter? {
        if owner != user && owner != 0 { return .foreign(owner: owner) }
        return mode & 0o022 == 0 ? nil : .writable
    }

    /// Throws `permissionDenied` if another user may write to `file`. `content` names the content in messages, such as `settings`.
    package static func require(_ file: File, with content: String) throws {
        try require(file.path, owner: file.owner(), mode: file.permissions(), with: content)
    }

    /// Throws `permissionDenied` if another user may put files into `folder`.
    package static func require(_ folder: Directory, with content: String) throws {
        let (owner, mode) = try folder.permissions()
        try require(folder.path, owner: owner, mode: mode, with: content)
    }

    private static func require(
        _ path: String, owner: UInt32, mode: UInt32, with content: String
    ) throws(UpdateFailure) {
        guard let refusal = judge(owner: owner, mode: mode, user: geteuid()) else { return }
        let (what, advice) =
            switch refusal {
            case .foreign(let owner):
                ("belong to another user (\(owner))", "if they are right, run `chown \(geteuid()) \(path)`")
            case .writable: ("can be changed by other users", "run `chmod go-w \(path)`, and check what is in it")
            }
        throw UpdateFailure(
            .permissionDenied, subject: path, "The \(content) in \(path) \(what), so they are not used: \(advice).")
    }
}
