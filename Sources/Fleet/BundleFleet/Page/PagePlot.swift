/// Drawings in SVG that stretch to the width of the page, with numbers and names beside them as text. Sizes are
/// attributes, because the page's policy forbids inline styles.
enum PagePlot {
    /// The number of distinct line colors.
    static let colors = 6

    private static func drawing(_ kind: String, height: Int, label: String, _ content: [Markup]) -> Markup {
        Markup(
            "svg",
            [
                "class": kind, "viewBox": "0 0 1000 \(height)", "preserveAspectRatio": "none", "role": "img",
                "aria-label": label,
            ], content)
    }

    private static func block(_ kind: String, _ start: Int, _ width: Int) -> Markup {
        Markup("rect", ["class": kind, "x": "\(start)", "y": "0", "width": "\(width)", "height": "10"])
    }

    /// The percentage of devices that may have a release, with a mark for each later step.
    static func rollout(permille: Int, isHeld: Bool, steps: [Int]) -> Markup {
        let share = min(1000, max(0, permille))
        return drawing(
            "bar", height: 10, label: "\(share / 10)% of the devices",
            [block("rail", 0, 1000), block(isHeld ? "held" : "full", 0, share)]
                + steps.map { block("step", min(996, max(0, $0 - 2)), 4) })
    }

    /// Confirmed and failed starts, relative to the highest number of devices of any release.
    static func verdicts(confirmed: Int, failed: Int, of most: Int) -> Markup {
        let whole = max(most, confirmed + failed, 1)
        // Even a few failures are visible.
        func width(_ count: Int) -> Int { count == 0 ? 0 : max(8, Int(1000 * Double(count) / Double(whole))) }
        let bad = width(failed)
        let fine = min(width(confirmed), 1000 - bad)
        return drawing(
            "bar", height: 10, label: "\(confirmed) confirmed, \(failed) failed",
            [block("rail", 0, 1000), block("fine", 0, fine), block("fault", fine, bad)])
    }

    /// One line for each of `courses`.
    static func courses(
        _ courses: [[ChannelReports.Course.Point]], times: ClosedRange<Int>, most: Int
    ) -> Markup {
        let span = Double(max(1, times.upperBound - times.lowerBound))
        let lines = courses.enumerated().map { index, points in
            let places = points.map { point in
                let across = Int(1000 * Double(point.time - times.lowerBound) / span)
                return "\(across),\(300 - Int(300 * Double(point.count) / Double(max(1, most))))"
            }
            // A course that starts later rises from zero, because a single point would not be visible.
            let first = points.first?.time ?? times.lowerBound
            let start = Int(1000 * Double(first - times.lowerBound) / span)
            let rise = points.count == 1 || start > 0 ? ["\(max(0, start - 8)),300"] : []
            return Markup(
                "polyline", ["class": "c\(index)", "points": (rise + places).joined(separator: " ")])
        }
        let grid = [0, 150, 300].map { height in
            Markup("line", ["x1": "0", "x2": "1000", "y1": "\(height)", "y2": "\(height)"])
        }
        return drawing(
            "course", height: 300, label: "Devices with a confirmed start, by version, over time", grid + lines)
    }

    static func swatch(_ index: Int) -> Markup {
        Markup(
            "svg", ["class": "swatch", "viewBox": "0 0 10 10", "aria-hidden": "true"],
            [Markup("rect", ["class": "c\(index)", "width": "10", "height": "10"])])
    }
}
