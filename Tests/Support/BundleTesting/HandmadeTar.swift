/// A tar built header by header (POSIX 1003.1, pax), with contents that the writers cannot produce.
package struct HandmadeTar {
    private var body: [UInt8] = []

    package init() {}

    /// Creates a tar with an `index.html`.
    package static var withIndex: HandmadeTar {
        var tar = HandmadeTar()
        tar.add("index.html", Array("<p>text</p>".utf8))
        return tar
    }

    /// The whole file with its end marker.
    package var bytes: [UInt8] { body + [UInt8](repeating: 0, count: 1024) }

    /// Adds a header and data. The name has at most 100 bytes.
    package mutating func add(_ name: some Sequence<UInt8>, _ content: [UInt8], type: Character = "0") {
        var header = [UInt8](repeating: 0, count: 512)
        func put(_ bytes: some Sequence<UInt8>, at offset: Int) {
            for (index, byte) in bytes.enumerated() { header[offset + index] = byte }
        }
        put(name, at: 0)
        put("0000644\00000000\00000000\0".utf8, at: 100)
        put(octal(content.count, digits: 11), at: 124)
        put(octal(0, digits: 11), at: 136)
        put("        ".utf8, at: 148)
        put(String(type).utf8, at: 156)
        put("ustar\000".utf8, at: 257)
        put(octal(header.reduce(0) { $0 + Int($1) }, digits: 6) + [0x20], at: 148)
        body += header + content + [UInt8](repeating: 0, count: (512 - content.count % 512) % 512)
    }

    package mutating func add(_ name: String, _ content: [UInt8], type: Character = "0") {
        add(name.utf8, content, type: type)
    }

    /// Adds pax records for the next entry.
    package mutating func add(pax records: KeyValuePairs<String, String>) {
        add("pax", records.flatMap { record($0.key, $0.value) }, type: "x")
    }

    /// Returns "LENGTH KEY=VALUE\n". The length includes its own digits.
    private func record(_ key: String, _ value: String) -> [UInt8] {
        let rest = " \(key)=\(value)\n"
        var length = rest.utf8.count + 1
        while "\(length)\(rest)".utf8.count != length { length += 1 }
        return Array("\(length)\(rest)".utf8)
    }

    private func octal(_ number: Int, digits: Int) -> [UInt8] {
        let text = String(number, radix: 8)
        return Array(String(repeating: "0", count: digits - text.utf8.count).utf8) + Array(text.utf8) + [0]
    }
}
