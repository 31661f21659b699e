/// Finds the word that a user probably meant.
package enum SimilarWord {
    /// Returns the word of `words` that differs from `word` in the fewest letters, at most two and a third of its letters.
    package static func closest(to word: String, in words: [String]) -> String? {
        let near = words.filter { !isOpposite($0, of: word) }.map { ($0, distance(Array(word.utf8), Array($0.utf8))) }
            .min { $0.1 < $1.1 }
        return near.flatMap { name, letters in letters <= 2 && letters * 3 <= word.utf8.count ? name : nil }
    }

    /// Whether `word` may mean the opposite of `other`, as `install` and `uninstall` do.
    package static func isOpposite(_ word: String, of other: String) -> Bool {
        ["un", "dis", "no-"].contains { prefix in
            word == prefix + other || other.hasPrefix(prefix) && !word.hasPrefix(prefix)
        }
    }

    /// Returns how many bytes to add, remove or change to turn `one` into `other`. Compares at most 64 bytes of `one`.
    private static func distance(_ one: [UInt8], _ other: [UInt8]) -> Int {
        var row = Array(0...other.count)
        for (index, letter) in one.prefix(64).enumerated() {
            var next = [index + 1]
            for (column, found) in other.enumerated() {
                next.append(min(row[column] + (letter == found ? 0 : 1), row[column + 1] + 1, next[column] + 1))
            }
            row = next
        }
        return row[other.count]
    }
}
