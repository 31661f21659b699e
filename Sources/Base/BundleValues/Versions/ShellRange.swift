/// The shells that a client runs in: both ends belong to it, by semantic version precedence.
package struct ShellRange: Sendable, Hashable {
    /// The oldest shell.
    package let minimum: SemanticVersion
    /// The newest shell; nil when every later one will do.
    package let maximum: SemanticVersion?

    /// Makes a range; throws when it would be empty.
    package init(minimum: SemanticVersion, maximum: SemanticVersion? = nil) throws(ShellRangeError) {
        if let maximum, maximum < minimum { throw .maximumBelowMinimum(minimum: minimum, maximum: maximum) }
        self.minimum = minimum
        self.maximum = maximum
    }

    /// Says whether `shell` lies in the range, and at which end it does not.
    package func answer(for shell: SemanticVersion) -> ShellCompatibility {
        if shell < minimum { return .shellTooOld(minimum: minimum) }
        if let maximum, shell > maximum { return .shellTooNew(maximum: maximum) }
        return .compatible
    }
}

/// Whether a client runs in a shell, with the reason when it does not.
package enum ShellCompatibility: Sendable, Equatable {
    /// The shell lies in the client's range.
    case compatible
    /// The client needs at least `minimum`.
    case shellTooOld(minimum: SemanticVersion)
    /// The client runs at most in `maximum`.
    case shellTooNew(maximum: SemanticVersion)
}

extension ShellCompatibility: CustomStringConvertible {
    /// What the client says to the shell, behind its name; the one wording of it.
    package var description: String {
        switch self {
        case .compatible: "runs in this shell"
        case .shellTooOld(let minimum): "needs shell \(minimum) or newer"
        case .shellTooNew(let maximum): "is for shells up to \(maximum)"
        }
    }
}

/// Why two versions are not a range of shells.
package enum ShellRangeError: Error, Sendable, Equatable, CustomStringConvertible {
    /// No shell can satisfy both ends.
    case maximumBelowMinimum(minimum: SemanticVersion, maximum: SemanticVersion)

    /// One sentence for people: what was refused and what to change.
    package var description: String {
        switch self {
        case .maximumBelowMinimum(let minimum, let maximum):
            "the newest shell \(maximum) is older than the oldest shell \(minimum); exchange or correct them"
        }
    }
}
