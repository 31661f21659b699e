/// A Prometheus metric with its samples.
package struct MetricFamily: Sendable {
    package enum Kind: String, Sendable { case counter, gauge, histogram }

    package struct MetricSample: Sendable {
        let suffix: String
        let labels: [(name: String, value: String)]
        let value: Double

        /// `suffix` is appended to the name of the family, such as `_sum`.
        package init(_ value: Double, labels: [(name: String, value: String)] = [], suffix: String = "") {
            self.suffix = suffix
            self.labels = labels
            self.value = value
        }
    }

    package let name: String
    let help: String
    let kind: Kind
    let samples: [MetricSample]

    /// Creates a family. `MetricsText` omits a family without samples.
    package init(_ name: String, _ kind: Kind, help: String, samples: [MetricSample]) {
        self.name = name
        self.help = help
        self.kind = kind
        self.samples = samples
    }
}

/// Renders metrics in the text format of Prometheus, version 0.0.4.
package enum MetricsText {
    package static func text(of families: [MetricFamily]) -> String {
        families.filter { !$0.samples.isEmpty }.map(text).joined()
    }

    private static func text(of family: MetricFamily) -> String {
        var text = "# HELP \(family.name) \(escaped(family.help, quotes: false))\n"
        text += "# TYPE \(family.name) \(family.kind.rawValue)\n"
        for sample in family.samples {
            let labels = sample.labels.map { "\($0.name)=\"\(escaped($0.value, quotes: true))\"" }
            text += "\(family.name)\(sample.suffix)"
            text += labels.isEmpty ? "" : "{\(labels.joined(separator: ","))}"
            text += " \(number(sample.value))\n"
        }
        return text
    }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        var escaped = ""
        for character in text.unicodeScalars {
            switch character {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(character)
            }
        }
        return escaped
    }

    private static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        return Int(exactly: value).map(String.init) ?? "\(value)"
    }

    /// The value of a bucket's `le` label.
    package static func bound(_ value: Double) -> String { number(value) }
}
