/// Writes values as UTF-8 JSON that `JSONScanner` reads back to the same value.
///
/// That holds for numbers within ±(2^53-1) and for the nesting that the reading side allows.
package enum JSONWriter {
    /// The layout of a document.
    package enum Layout: Sendable {
        /// No white space at all.
        case compact
        /// One member or element a line, indented by two spaces, with a line feed at the end.
        case pretty
    }

    /// Returns the document with members in the order of the object. It escapes the characters that RFC 8259 requires, and those
    /// that do not print (`PrintableText`), so that a terminal can show the document.
    package static func bytes(of value: JSONValue, layout: Layout = .compact) -> [UInt8] {
        var output = Output(layout: layout)
        output.write(value, indent: 0)
        if layout == .pretty { output.bytes.append(0x0A) }
        return output.bytes
    }

    private struct Output {
        let layout: Layout
        var bytes: [UInt8] = []

        mutating func write(_ value: JSONValue, indent: Int) {
            switch value {
            case .null: write("null")
            case .bool(let flag): write(flag ? "true" : "false")
            case .integer(let number): write(String(number))
            case .string(let text): writeQuoted(text)
            case .array(let elements):
                writeList(elements, from: "[", to: "]", indent: indent) { output, element in
                    output.write(element, indent: indent + 1)
                }
            case .object(let object):
                writeList(object.members, from: "{", to: "}", indent: indent) { output, member in
                    output.writeQuoted(member.name)
                    output.write(output.layout == .pretty ? ": " : ":")
                    output.write(member.value, indent: indent + 1)
                }
            }
        }

        private mutating func writeList<Item>(
            _ items: [Item], from opening: String, to closing: String, indent: Int, item: (inout Output, Item) -> Void
        ) {
            write(opening)
            for (index, entry) in items.enumerated() {
                if index > 0 { write(",") }
                breakLine(indent: indent + 1)
                item(&self, entry)
            }
            if !items.isEmpty { breakLine(indent: indent) }
            write(closing)
        }

        private mutating func breakLine(indent: Int) {
            guard layout == .pretty else { return }
            bytes.append(0x0A)
            bytes.append(contentsOf: repeatElement(0x20, count: 2 * indent))
        }

        private mutating func write(_ text: String) { bytes.append(contentsOf: text.utf8) }

        private mutating func writeQuoted(_ text: String) {
            bytes.append(UInt8(ascii: "\""))
            for scalar in text.unicodeScalars {
                switch scalar {
                case "\"": write("\\\"")
                case "\\": write("\\\\")
                case "\u{08}": write("\\b")
                case "\t": write("\\t")
                case "\n": write("\\n")
                case "\u{0C}": write("\\f")
                case "\r": write("\\r")
                case _ where PrintableText.prints(scalar): bytes.append(contentsOf: String(scalar).utf8)
                default:
                    for unit in String(scalar).utf16 {
                        let digits = String(unit, radix: 16)
                        write("\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits)
                    }
                }
            }
            bytes.append(UInt8(ascii: "\""))
        }
    }
}
