import BundleArchive
import Glibc
package import BundleValues

/// An unsafe or malformed archive: the rule it breaks and the entry that breaks it.
package struct ArchiveRejection: ClassifiedFailure, Equatable, Sendable {
    /// The rule's word, from SECURITY section 3.
    package let rule: String
    /// The entry, made printable; empty where the archive as a whole is refused.
    package let entry: String
    /// What the rule says.
    package let reason: String

    /// States a rejection; `entry` is already printable.
    init(_ rule: String, entry: String = "", _ reason: String) {
        self.rule = rule
        self.entry = entry
        self.reason = reason
    }

    init(_ error: BundlePathError) {
        self.init(error.rule, entry: error.path, "\(error)")
    }

    /// `archiveRejected` with rule and entry as the subject.
    package var failure: UpdateFailure {
        UpdateFailure(
            .archiveRejected, subject: entry.isEmpty ? rule : "\(rule): \(entry)",
            "The archive is refused\(entry.isEmpty ? "" : " because of \(entry)"): \(reason) (\(rule)). "
                + "Publish the client again with clientctl publish.")
    }
}

extension ArchiveFailure {
    /// The archive's refusal, or what this machine cannot do: that is no fault of the archive, which is kept then.
    func refusal(entry: String = "") -> any Error {
        if let rule { return ArchiveRejection(rule, entry: entry, description) }
        guard case .system(_, let code) = self, [ENOMEM, EAGAIN, EMFILE, ENFILE].contains(code) else {
            return UpdateFailure(
                .internal, subject: "archive",
                "This machine \(description). The release is not to blame: check the disk, then run it again.")
        }
        return UpdateFailure(
            .resourcesExhausted, subject: "archive",
            "This machine \(description). The release is not to blame: free memory, or raise the limits on memory, processes and open "
                + "files, then run it again.")
    }
}
