/// Escapes the characters that could change what a terminal or a log shows of the text around them.
///
/// These are controls, bidirectional and invisible characters, separators of lines, private use and unassigned code points.
package enum PrintableText {
    /// Returns `text` as one line, with each byte of a character that does not print as `\xNN`.
    ///
    /// Unlike `UntrustedName.display`, this keeps backslashes and cuts nothing: a name that is escaped already stays as it is.
    package static func line(_ text: String) -> String {
        if text.utf8.allSatisfy({ 0x20 <= $0 && $0 < 0x7F }) { return text }
        var line = ""
        for scalar in text.unicodeScalars {
            line += prints(scalar) ? String(scalar) : String(scalar).utf8.map(escape).joined()
        }
        return line
    }

    /// Whether `scalar` prints as itself.
    static func prints(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.isASCII { return scalar.value >= 0x20 && scalar.value != 0x7F }
        if scalar.properties.isDefaultIgnorableCodePoint { return false }
        switch scalar.properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator: return false
        default: return true
        }
    }

    static func escape(_ byte: UInt8) -> String {
        let digits = String(byte, radix: 16, uppercase: true)
        return digits.utf8.count == 1 ? "\\x0\(digits)" : "\\x\(digits)"
    }
}
