/// Two trees of files by path, such as two releases.
package struct TreePair: Sendable {
    package var old: [String: [UInt8]]
    package var new: [String: [UInt8]]

    package init(old: [String: [UInt8]], new: [String: [UInt8]]) {
        self.old = old
        self.new = new
    }

    /// Returns a random pair in which files stay, change, grow, shrink, move, are renamed as by bundlers, and are added
    /// and removed. Some are empty, equal or binary.
    package static func random(_ generator: inout SeededGenerator, files: Int = 24) -> TreePair {
        var old: [String: [UInt8]] = ["index.html": text(&generator, lines: 4)]
        for _ in 0..<Int.random(in: 0...files, using: &generator) {
            let bytes = content(&generator, besides: old)
            old[name(&generator)] = bytes
        }
        var new: [String: [UInt8]] = [:]
        for (path, bytes) in old.sorted(by: { $0.key < $1.key }) {
            switch path == "index.html" ? 0 : Int.random(in: 0..<10, using: &generator) {
            case 0, 1, 2: new[path] = bytes
            case 3, 4: new[path] = edited(bytes, &generator)
            case 5: new[name(&generator)] = bytes
            case 6, 7: new[name(&generator)] = edited(bytes, &generator)
            case 8: new[path] = content(&generator, besides: new)
            default: break
            }
        }
        for _ in 0..<Int.random(in: 0...4, using: &generator) {
            let bytes = content(&generator, besides: new)
            new[name(&generator)] = bytes
        }
        return withoutConflicts(TreePair(old: old, new: new))
    }

    /// Removes files whose path is a folder of another file.
    private static func withoutConflicts(_ pair: TreePair) -> TreePair {
        func clean(_ tree: [String: [UInt8]]) -> [String: [UInt8]] {
            tree.filter { path, _ in !tree.keys.contains { $0.hasPrefix(path + "/") } }
        }
        return TreePair(old: clean(pair.old), new: clean(pair.new))
    }

    private static func name(_ generator: inout SeededGenerator) -> String {
        let folder = ["", "a/", "a/b/", "static/js/", "frontend_es5/"].randomElement(using: &generator) ?? ""
        let stem = ["app", "chunk", "12", "3", "vendor-x"].randomElement(using: &generator) ?? ""
        let hash = String(UInt32.random(in: .min ... .max, using: &generator), radix: 16)
        let end = [".js", ".css", ".png", ""].randomElement(using: &generator) ?? ""
        return Bool.random(using: &generator) ? "\(folder)\(stem).\(hash)\(end)" : "\(folder)\(stem)\(end)"
    }

    private static func content(_ generator: inout SeededGenerator, besides tree: [String: [UInt8]]) -> [UInt8] {
        switch Int.random(in: 0..<12, using: &generator) {
        case 0: return []
        case 1: return tree.sorted(by: { $0.key < $1.key }).first?.value ?? []
        case 2:
            return (0..<Int.random(in: 1...9000, using: &generator)).map { _ in
                UInt8.random(in: .min ... .max, using: &generator)
            }
        case 3: return text(&generator, lines: Int.random(in: 300...900, using: &generator))
        default: return text(&generator, lines: Int.random(in: 0...90, using: &generator))
        }
    }

    private static func text(_ generator: inout SeededGenerator, lines: Int) -> [UInt8] {
        (0..<lines).flatMap { _ in
            Array("const v\(UInt16.random(in: .min ... .max, using: &generator)) = require(\"./module\");\n".utf8)
        }
    }

    private static func edited(_ bytes: [UInt8], _ generator: inout SeededGenerator) -> [UInt8] {
        var edited = bytes
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            let place = Int.random(in: 0...edited.count, using: &generator)
            let end = min(edited.count, place + Int.random(in: 0...40, using: &generator))
            edited.replaceSubrange(place..<end, with: text(&generator, lines: Int.random(in: 0...3, using: &generator)))
        }
        return edited
    }
}
