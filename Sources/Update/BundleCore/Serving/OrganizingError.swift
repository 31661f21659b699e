package import BundleValues
package import BundleDisk

/// Why a client cannot be laid out for serving.
package enum OrganizingError: ClassifiedFailure, Equatable {
    /// The map of its assets breaks rules; every finding is one clause.
    case invalid(findings: [String])
    /// There is nothing to start the application with: its index page has no file, or `path` names none.
    case indexMissing(path: String)
    /// A file could neither be linked nor copied.
    case notPlaced(urlPath: String, link: DiskError, copy: DiskError)
    /// The name is none that a serving root may have.
    case illegalName(String)

    /// `unsuitableBundle`, or what the disk said last.
    package var failure: UpdateFailure {
        switch self {
        case .invalid(let findings):
            UpdateFailure(
                .unsuitableBundle, subject: findings.first ?? "",
                "Bundle validation failed: \(findings.joined(separator: "; "))")
        case .indexMissing(let path):
            UpdateFailure(
                .unsuitableBundle, subject: path,
                "The client has no index page: \(path) cannot be read. Install another version.")
        case .notPlaced(let urlPath, let link, let copy):
            UpdateFailure(
                copy.failure.code, subject: urlPath,
                "Cannot lay out \(urlPath): \(link), and \(copy). Check the disk, then run it again.")
        case .illegalName(let name):
            UpdateFailure(
                .unsuitableBundle, subject: UntrustedName.display(name),
                "\"\(UntrustedName.display(name))\" cannot be the name of a serving root: "
                    + "use one component that does not start with a dot.")
        }
    }
}

extension OrganizingError: CustomStringConvertible {
    /// The message of the public form.
    package var description: String { failure.message }
}
