package import BundleFormats
package import BundleValues

/// A change of a channel's conditions for downloads. A condition without a new value stays.
package struct NetworkChange: Sendable, Equatable {
    /// A new value, or the removal of the old one.
    package enum Value<Content: Sendable & Equatable>: Sendable, Equatable {
        case unchanged
        case removed
        case set(Content)
    }

    /// The rate of all transfers of a device, in bytes per second.
    package var rate = Value<Int>.unchanged
    /// The hours for archives and deltas.
    package var hours = Value<ActivationWindows>.unchanged
    /// The bytes on metered links in a calendar month.
    package var meteredBudget = Value<Int>.unchanged
    package var deltas = Value<DeltaUse>.unchanged
    package var mirrors = Value<[FetchURL]>.unchanged

    /// Creates a change of nothing.
    package init() {}

    /// Applies the change. Returns the changes in words.
    func apply(to policy: inout FetchPolicy) -> [String] {
        let before = policy
        Self.apply(rate, &policy.rate)
        Self.apply(meteredBudget, &policy.meteredBudget)
        switch hours {
        case .unchanged: break
        case .removed: policy.hours = []
        case .set(let windows): policy.hours = [windows]
        }
        switch deltas {
        case .unchanged: break
        case .removed: policy.deltas = .prefer
        case .set(let use): policy.deltas = use
        }
        switch mirrors {
        case .unchanged: break
        case .removed: policy.mirrors = []
        case .set(let urls): policy.mirrors = urls
        }
        return policy == before ? [] : [Self.words(policy)]
    }

    private static func apply(_ change: Value<Int>, _ value: inout Int?) {
        switch change {
        case .unchanged: break
        case .removed: value = nil
        case .set(let number): value = number
        }
    }

    /// Returns the conditions in words.
    package static func words(_ policy: FetchPolicy) -> String {
        let conditions: [String?] = [
            policy.rate.map { "at most \(ByteCount(bytes: $0)) per second" },
            policy.hours.first.map { "in the hours \($0)" },
            policy.meteredBudget.map { "at most \(ByteCount(bytes: $0)) in a month on metered networks" },
            policy.deltas == .only ? "deltas only" : policy.deltas == .never ? "no deltas" : nil,
            policy.mirrors.isEmpty ? nil : "from \(counted(policy.mirrors.count, "mirror")) first",
        ]
        let known = conditions.compactMap(\.self)
        return known.isEmpty
            ? "devices download releases by their own settings"
            : "devices download releases \(known.joined(separator: ", "))"
    }
}
