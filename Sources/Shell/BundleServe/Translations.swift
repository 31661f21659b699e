/// The documents of a page of the shell, by language.
package struct Translations: Sendable {
    private let documents: [(language: String, page: IndexPage)]

    /// Creates translations. The first language is the one of users who accept none of them. Tags are in lower case.
    package init(_ documents: [(String, IndexPage)]) { self.documents = documents.map { (language: $0.0, page: $0.1) } }

    /// Returns the document for the value of an `Accept-Language` field; nil if there is none.
    func page(for accepted: String?) -> IndexPage? {
        let language = AcceptLanguage.choice(accepted ?? "", from: documents.map(\.language))
        return (documents.first { $0.language == language } ?? documents.first)?.page
    }
}

/// The choice of a language by `Accept-Language` (RFC 9110 section 12.5.4, with the lookup of RFC 4647).
enum AcceptLanguage {
    /// Returns the best of `languages`, whose tags are in lower case; nil if `accepted` names none of them.
    static func choice(_ accepted: String, from languages: [String]) -> String? {
        let ranges = accepted.lowercased().split(separator: ",").compactMap {
            element -> (tag: Substring, weight: Double)? in
            let parts = element.split(separator: ";").map { $0.trimmingPrefix(while: \.isWhitespace) }
            guard let tag = parts.first?.prefix(while: { !$0.isWhitespace }), !tag.isEmpty else { return nil }
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }.flatMap { Double($0.dropFirst(2)) } ?? 1
            return weight > 0 ? (tag, weight) : nil
        }
        // The sort is stable, so the first of equal weights stays first.
        for range in ranges.sorted(by: { $0.weight > $1.weight }) {
            if range.tag == "*" { return languages.first }
            var tag = range.tag
            while true {
                if languages.contains(String(tag)) { return String(tag) }
                guard let hyphen = tag.lastIndex(of: "-") else { break }
                tag = tag[..<hyphen]
            }
        }
        return nil
    }
}
