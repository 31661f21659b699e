/// An event on a device, reported once. It contains nothing that identifies the device.
package struct DeviceReport: Sendable, Equatable {
    /// An event of a version. The raw values are the words of report messages and metrics.
    package enum Fact: String, Sendable, CaseIterable {
        case installed
        /// The version was started for the first time.
        case started
        /// The version was confirmed.
        case confirmed
        case failed
        /// The device left the version for another one.
        case rolledBack
        /// The device does not start the version again.
        case blocked
        /// The version is offered, and its download waits.
        case waiting

        /// The causes that an event can have.
        package var codes: [Code] {
            switch self {
            case .installed, .started: []
            case .confirmed: [.afterFailure]
            case .failed: [.notConfirmed, .interrupted, .reported, .notPrepared] + Code.downloads
            case .rolledBack: [.notConfirmed, .interrupted, .reported, .notPrepared, .byHand, .recalled]
            case .blocked: [.failedStarts, .byHand, .notPrepared]
            case .waiting: [.hours, .budget, .deltas]
            }
        }
    }

    /// The cause of an event. The list is closed, so that a cause can be a metric label.
    package enum Code: String, Sendable, CaseIterable {
        /// The start was not confirmed in time.
        case notConfirmed
        /// The shell ended before the start was confirmed.
        case interrupted
        /// The shell or the page reported the failure.
        case reported
        /// The client could not be prepared for its start.
        case notPrepared
        /// Starts of the version failed too often.
        case failedStarts
        /// An operator did it on the device.
        case byHand
        /// The channel recalled the version.
        case recalled
        /// The version was confirmed after an earlier start of it had failed.
        case afterFailure
        /// The hours for downloads have not begun.
        case hours
        /// The budget of a metered link is too small.
        case budget
        /// Only deltas, or no deltas, are downloaded.
        case deltas
        /// The phone downloaded other bytes than the signed ones.
        case digestMismatch
        /// The phone could not unpack the bundle.
        case archiveRejected
        /// The phone could not download the bundle.
        case networkUnavailable

        /// The causes of a phone that failed before it had the version. They are no verdict on its start.
        package static let downloads: [Code] = [.digestMismatch, .archiveRejected, .networkUnavailable]
    }

    /// The platform of a phone. The list is closed, so that it can be a metric label.
    package enum Platform: String, Sendable, CaseIterable {
        case android, ios, electron
    }

    package enum UpdateRoute: String, Sendable, CaseIterable {
        case delta, archive
    }

    /// 32 random hexadecimal digits, by which a receiver recognizes a repeated report.
    package let id: String
    package let fact: Fact
    package let version: SemanticVersion
    /// The channel that the device follows; nil for a device that reads a manifest.
    package let channel: String?
    /// The version that ran before; nil for the seed and for events without a change of version.
    package let previous: SemanticVersion?
    /// The download of an `installed` event.
    package let route: UpdateRoute?
    /// The cause, for events that can have one.
    package let code: Code?
    /// The platform of a phone; nil for other devices.
    package let platform: Platform?

    package init(
        id: String, fact: Fact, version: SemanticVersion, channel: String?, previous: SemanticVersion? = nil,
        route: UpdateRoute? = nil, code: Code? = nil, platform: Platform? = nil
    ) {
        self.platform = platform
        self.id = id
        self.fact = fact
        self.version = version
        self.channel = channel
        self.previous = previous
        self.route = route
        self.code = code
    }

    package static func randomID() -> String {
        (0..<2).map { _ in
            let digits = String(UInt64.random(in: .min ... .max), radix: 16)
            return String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }.joined()
    }
}

extension DeviceReport {
    private static let members: Set<String> = [
        "id", "fact", "version", "channel", "previous", "route", "code", "platform",
    ]

    /// Throws unless `json` could have written the members: unknown ones would become labels of an operator's metrics.
    package init(_ reader: MemberReader) throws(MemberReader.Refusal) {
        try reader.requireOnly(Self.members, of: "report")
        let id = try reader.string("id")
        guard id.utf8.count == 32, id.utf8.allSatisfy({ (48...57).contains($0) || (97...102).contains($0) }) else {
            throw reader.refusal("id", "is not 32 hex digits")
        }
        let channel = try reader.optionalString("channel")
        if let channel, !ChannelFileName.isName(channel) { throw reader.refusal("channel", ChannelFileName.rule) }
        self.init(
            id: id, fact: try reader.value("fact"), version: try reader.version("version"), channel: channel,
            previous: try reader.optionalVersion("previous"), route: try reader.optionalValue("route"),
            code: try reader.optionalValue("code"), platform: try reader.optionalValue("platform"))
        if route != nil && fact != .installed { throw reader.refusal("route", "is not allowed for \(fact)") }
        if let code, !fact.codes.contains(code) { throw reader.refusal("code", "is not allowed for \(fact)") }
    }

    /// The report as stored in the ledger and sent in a message.
    package var json: JSONValue {
        var object: JSONObject = [
            "id": .string(id), "fact": .string(fact.rawValue), "version": .string(version.description),
            "channel": .string(orNull: channel), "previous": .string(orNull: previous?.description),
            "route": .string(orNull: route?.rawValue), "code": .string(orNull: code?.rawValue),
        ]
        // Older hosts refuse the member, and no other device has one.
        object["platform"] = (platform?.rawValue).map(JSONValue.string)
        return .object(object)
    }

    /// The metric labels of the report. An absent value is an empty label, and an absent platform no label.
    package var labels: [(name: String, value: String)] {
        [
            ("channel", channel ?? ""), ("version", version.description), ("fact", fact.rawValue),
            ("code", code?.rawValue ?? ""), ("route", route?.rawValue ?? ""),
        ] + (platform.map { [("platform", $0.rawValue)] } ?? [])
    }
}

/// The body of a report: events, and the number of dropped events. Guide/reference/reports.md specifies the format.
package struct ReportMessage: Sendable, Equatable {
    package static let maximumBytes = 64 << 10
    package static let maximumReports = 64

    /// The application; nil if it is not configured.
    package let appId: String?
    /// The reports, oldest first.
    package let reports: [DeviceReport]
    /// The number of reports dropped since the last message.
    package let dropped: Int

    package init(appId: String?, reports: [DeviceReport], dropped: Int) {
        self.appId = appId
        self.reports = reports
        self.dropped = dropped
    }

    /// Throws `JSONError` or `MemberReader.Refusal`.
    package init(parsing bytes: [UInt8]) throws {
        let reader = try MemberReader(JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes), of: "message")
        try reader.requireOnly(["schema", "appId", "dropped", "reports"], of: "message")
        guard try reader.integer("schema") == 1 else { throw reader.refusal("schema", "is not 1") }
        let reports = try reader.objects("reports").map { reader throws(MemberReader.Refusal) in
            try DeviceReport(reader)
        }
        guard reports.count <= Self.maximumReports else {
            throw reader.refusal("reports", "has more than \(Self.maximumReports)")
        }
        let appId = try reader.optionalString("appId")
        if let appId, appId.utf8.count > 256 { throw reader.refusal("appId", "has more than 256 bytes") }
        self.init(appId: appId, reports: reports, dropped: min(1_000_000, try reader.integer("dropped")))
    }

    package var bytes: [UInt8] {
        JSONWriter.bytes(
            of: .object([
                "schema": .integer(1), "appId": .string(orNull: appId), "dropped": .integer(dropped),
                "reports": .array(reports.map(\.json)),
            ]))
    }

    /// The message in the text format of Prometheus, with a sample of 1 for each report, for the import path of
    /// VictoriaMetrics (`/api/v1/import/prometheus`).
    package var samples: [UInt8] {
        let family = MetricFamily(
            "clientctl_report", .gauge, help: "One for each report of a device.",
            samples: reports.map { .init(1, labels: [("app", appId ?? "")] + $0.labels) })
        return Array(MetricsText.text(of: [family]).utf8)
    }
}
