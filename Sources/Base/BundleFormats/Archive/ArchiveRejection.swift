import BundleArchive
import CLibrary
package import BundleValues

/// The rule that an unsafe or malformed archive breaks, and the entry that breaks it.
package struct ArchiveRejection: ClassifiedFailure, Equatable, Sendable {
    /// The name of the rule, from SECURITY section 3.
    package let rule: String
    /// The entry in a printable form; empty if the rule is about the whole archive.
    package let entry: String
    /// The problem, for a human reader.
    package let reason: String

    /// Creates a rejection. The caller has made `entry` printable.
    package init(_ rule: String, entry: String = "", _ reason: String) {
        self.rule = rule
        self.entry = entry
        self.reason = reason
    }

    init(_ error: BundlePathError) {
        self.init(error.rule, entry: error.path, "\(error)")
    }

    /// The error `archiveRejected`. Its subject is the rule and the entry.
    package var failure: UpdateFailure {
        UpdateFailure(
            .archiveRejected, subject: entry.isEmpty ? rule : "\(rule): \(entry)",
            "The archive is refused\(entry.isEmpty ? "" : " because of \(entry)"): \(reason) (\(rule)). "
                + "Publish the client again with clientctl publish.")
    }
}

extension ArchiveFailure {
    /// Returns an `ArchiveRejection`, or an error of this machine such as a lack of memory. The archive is kept after
    /// the latter.
    func refusal(entry: String = "") -> any Error {
        if let rule { return ArchiveRejection(rule, entry: entry, description) }
        guard case .system(_, let code) = self, [ENOMEM, EAGAIN, EMFILE, ENFILE].contains(code) else {
            return UpdateFailure(
                .internal, subject: "archive",
                "This machine \(description). The release is not the cause: check the disk, then run it again.")
        }
        return UpdateFailure(
            .resourcesExhausted, subject: "archive",
            "This machine \(description). The release is not the cause: free memory, or raise the limits on memory, processes and "
                + "open files, then run it again.")
    }
}
