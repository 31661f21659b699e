/// Whose clients may run on a device, and whose come first. The seed comes last, always.
public struct SourceOrder: Sendable, Equatable, CustomStringConvertible {
    /// A hot code push is the newer word, so it goes over an archive until it fails.
    public static let standard = SourceOrder(unchecked: [.meteor, .archive])

    /// The sources, the first one first; at least one, none twice.
    package let names: [SourceName]

    private init(unchecked names: [SourceName]) { self.names = names }

    /// Reads the words of a list; nil where it is empty, or names a source twice or one that does not exist.
    public init?(_ words: [String]) {
        let names = words.compactMap(SourceName.init(rawValue:))
        guard !names.isEmpty, names.count == words.count, Set(names).count == names.count else { return nil }
        self.names = names
    }

    /// The list as people write it: `meteor,archive`.
    public var description: String { names.map(\.rawValue).joined(separator: ",") }
}
