import BundleValues

extension PageDocument {
    func reports(_ channel: ReleasePage.ChannelSection) -> [Markup] {
        guard let reports = channel.reports else { return [] }
        let head = Markup("h3", [:], ["What devices report"])
        if reports.releases.isEmpty { return [head, Markup("p", [:], ["No device has reported anything."])] }
        let releases = reports.releases.prefix(limits.versions)
        let left = reports.releases.count - releases.count
        return [head] + courses(reports) + [
            Markup(
                "ul", ["class": "reports"],
                releases.map { report($0, of: reports.mostDevices) }
                    + (left > 0 ? [Markup("li", ["class": "quiet"], ["and \(Self.number(left)) more versions"])] : []))
        ]
    }

    private func report(_ release: ChannelReports.ReleaseCounts, of most: Int) -> Markup {
        Markup(
            "li", [:],
            [
                Markup("p", [:], [Markup("b", [:], ["\(shown(release.version))"]), " \(words(release))"]),
                PagePlot.verdicts(
                    confirmed: release.count("confirmed"), failed: release.count("failed"), of: most),
            ])
    }

    private func words(_ release: ChannelReports.ReleaseCounts) -> String {
        func counted(_ fact: String, _ words: String) -> String? {
            release.count(fact) > 0 ? "\(Self.number(release.count(fact))) \(words)" : nil
        }
        let parts = [
            counted("installed", "installed"), counted("confirmed", "confirmed"),
            counted("failed", "failed").map { $0 + codes(release) }, counted("rolledBack", "rolled back"),
            counted("blocked", "blocked"), counted("waiting", "waited for their download"),
        ].compactMap { $0 }
        return parts.isEmpty ? "nothing yet" : parts.joined(separator: " · ")
    }

    /// The failure codes, the most frequent first.
    private func codes(_ release: ChannelReports.ReleaseCounts) -> String {
        let codes = release.failures.filter { !$0.key.isEmpty }.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        if codes.isEmpty { return "" }
        let shown = codes.prefix(limits.items).map { "\(self.shown($0.key)) \(Self.number($0.value))" }
        return " (\(shown.joined(separator: ", "))\(codes.count > shown.count ? ", …" : ""))"
    }

    private func courses(_ reports: ChannelReports) -> [Markup] {
        let courses = Array(reports.courses.prefix(PagePlot.colors))
        let points = courses.flatMap(\.points)
        guard let first = points.map(\.time).min(), let last = points.map(\.time).max(), first < last,
            let most = points.map(\.count).max(), most > 0
        else { return [] }
        return [
            Markup(
                "figure", [:],
                [
                    Markup("figcaption", [:], ["Devices with a confirmed start, at most \(Self.number(most))"]),
                    PagePlot.courses(courses.map(\.points), times: first...last, most: most),
                    Markup(
                        "p", ["class": "axis"],
                        [day(Timestamp(clamping: first)), day(Timestamp(clamping: last))]),
                    Markup(
                        "ul", ["class": "legend"],
                        courses.enumerated().map { index, course in
                            Markup(
                                "li", [:],
                                [
                                    PagePlot.swatch(index),
                                    " \(shown(course.version)): \(Self.number(course.points.last?.count ?? 0))",
                                ])
                        }),
                ])
        ]
    }
}
