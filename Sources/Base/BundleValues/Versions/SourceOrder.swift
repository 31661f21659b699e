/// The sources whose clients may run on a device, in order of preference. The seed always comes last.
public struct SourceOrder: Sendable, Equatable, CustomStringConvertible {
    /// Prefers a Meteor client to an archive until it fails, because a hot code push is newer.
    public static let standard = SourceOrder(unchecked: [.meteor, .archive])

    /// The sources, most preferred first. There is at least one, and none is repeated.
    package let names: [SourceName]

    private init(unchecked names: [SourceName]) { self.names = names }

    /// Returns nil if the list is empty, repeats a source or has an unknown one.
    public init?(_ words: [String]) {
        let names = words.compactMap(SourceName.init(rawValue:))
        guard !names.isEmpty, names.count == words.count, Set(names).count == names.count else { return nil }
        self.names = names
    }

    /// The list as written in flags: `meteor,archive`.
    public var description: String { names.map(\.rawValue).joined(separator: ",") }
}
