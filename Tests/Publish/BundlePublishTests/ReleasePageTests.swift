import ArchiveSource
import BundleCore
import BundleSigning
import BundleTesting
import BundleValues
import Testing

@testable import BundlePublish
@testable import BundleFleet

/// The content of a release page, which shows text of the feed only as text.
@Suite("ReleasePage") struct ReleasePageTests {
    private let workspace: Workspace

    init() throws { workspace = try Workspace() }

    private var trust: TrustAnchor { .keys(TrustedKeys([workspace.release.publicKey, workspace.channel.publicKey])) }

    private func page(trust: TrustAnchor? = nil) throws -> ReleasePage {
        try PageReader(workspace.location, trust: trust, clock: workspace.start).page()
    }

    private func html(trust: TrustAnchor? = nil) throws -> String { try page(trust: trust).html() }

    /// Returns the elements with the names of their attributes, in order.
    private static func outline(_ html: String) -> [String] {
        let text = html.replacing(/<style>[^<]*<\/style>/, with: "<style>")
        return text.matches(of: /<([^>]*)>/).map { tag in
            String(tag.output.1).replacing(/="[^"]*"/, with: "")
        }
    }

    private func release(
        _ version: String, notes: String? = nil, rollout: Int = 1000, isPaused: Bool = false
    ) throws -> ChannelDocument.Release {
        var claims = try workspace.manifest(version).claims
        if let notes {
            let text = Array(notes.utf8)
            claims.notesSha256 = try .of(text)
            try workspace.folder.makeFolder("feed/releases/v\(version)")
            try workspace.folder.write(text, to: "feed/releases/v\(version)/notes.txt")
        }
        claims.size = 1_234_567
        let document = ManifestFormat.document(claims, signature: try workspace.release.sign(try claims.statement()))
        let manifest = try ManifestFormat.parse(JSONWriter.bytes(of: document))
        return ChannelDocument.Release(manifest, rollout: rollout, isPaused: isPaused)
    }

    private func put(_ releases: [ChannelDocument.Release], _ change: (inout ChannelDocument) -> Void = { _ in }) throws
    {
        var document = try workspace.document()
        document.releases = releases
        change(&document)
        try workspace.put(document)
    }

    // MARK: Content

    @Test func `states that a feed is empty`() throws {
        let html = try html()
        #expect(html.contains("This feed has no channels.") && html.contains("It has no trust root."))
        #expect(html.contains("It has no manifest.json") && !html.contains("not verified"))
    }

    @Test func `shows live, rolling and recalled releases`() throws {
        let releases = [
            try release("1.0.0"), try release("1.1.0"), try release("1.2.0", rollout: 250, isPaused: false),
            try release("1.3.0", rollout: 15, isPaused: true),
        ]
        try put(releases) {
            $0.recalled = [.init(version: releases[1].version, reason: "white screen")]
            $0.minimumVersion = releases[0].version
        }
        let html = try html(trust: trust)
        #expect(html.contains("<b>1.0.0</b> is live for every device"))
        #expect(html.contains("<b>1.2.0</b> is for 25% of the devices</p>"))
        #expect(html.contains(#"<rect class="full" x="0" y="0" width="250" height="10">"#))
        #expect(html.contains("<b>1.3.0</b> is for 1.5% of the devices, and paused</p>"))
        #expect(html.contains(#"<rect class="held" x="0" y="0" width="15" height="10">"#))
        #expect(html.contains("<b>1.1.0</b>: white screen") && html.contains("nothing below 1.0.0 may run"))
        #expect(html.contains("1.2 MB") && html.contains("shells from 1.0.0"))
        #expect(html.contains("\(workspace.channel.publicKey.id.prefix(12))…"))
        #expect(!html.contains("not verified") && !html.contains("not trusted") && !html.contains("expired"))
    }

    @Test func `shows the groups that install a release first or exclusively`() throws {
        var (first, alone) = (try release("1.1.0", rollout: 10), try release("1.2.0"))
        first.groups = ["qa"]
        (alone.groups, alone.isOnlyForGroups) = (["eu", "qa"], true)
        try put([try release("1.0.0"), first, alone])
        let html = try html()
        #expect(html.contains("<b>1.1.0</b> is for the group qa first, and 1% of the devices</p>"))
        #expect(html.contains("<b>1.2.0</b> is for the groups eu, qa alone</p>"))
        #expect(html.contains("<b>1.0.0</b> is live for every device"))
    }

    @Test func `shows each later step of a ramp`() throws {
        try put([try release("1.0.0", rollout: 10)])
        var page = try page()
        let content = try #require(page.channels[0].content.content)
        var shown = content.releases[0]
        shown.steps = [.init(at: workspace.start.adding(.seconds(86_400)), permille: 500)]
        page.channels[0] = .init(
            name: "stable",
            content: .read(.init(document: content.document, proof: content.proof, releases: [shown])),
            history: page.channels[0].history)
        let html = try page.html()
        #expect(html.contains(#"<rect class="step" x="498" y="0" width="4" height="10">"#))
        #expect(html.contains(#", 50% from <time datetime="2030-01-02T00:00:00Z">2030-01-02 00:00 UTC</time>"#))
    }

    @Test func `lists the history, newest first, with the number of omitted entries`() throws {
        try put([try release("1.0.0", rollout: 0)])
        let version = try workspace.version("1.0.0")
        for step in 1...65 { _ = try workspace.editor().apply(.rollout(version, step), to: "stable") }
        let html = try html(trust: trust)
        let entries = html.matches(of: /1\.0\.0: for ([^<]*) of the devices → ([^<]*) of the devices/)
        #expect(entries.count == 60)
        #expect(entries.first?.output.2 == "6.5%" && entries.last?.output.1 == "0.5%")
        #expect(html.contains("and 5 older ones: clientctl channel log"))
    }

    // MARK: Verification

    @Test func `marks files without a trusted signature`() throws {
        try put([try release("1.0.0")])
        #expect(try html().contains("not verified"))
        let unknownKey = try Workspace.signer()
        let refused = try html(trust: .keys(TrustedKeys([unknownKey.publicKey])))
        #expect(refused.contains(#"<span class="tag bad">not trusted</span>"#))
        #expect(refused.contains("is not trusted for it here"))
        let half = try html(trust: .keys(TrustedKeys([workspace.channel.publicKey])))
        #expect(half.ranges(of: #"<span class="tag bad">not trusted</span>"#).count == 1)
    }

    @Test func `marks damaged, missing and expired files`() throws {
        try put([try release("1.0.0")])
        _ = try workspace.editor().apply(.renew, to: "stable")
        try workspace.folder.write(Array("{".utf8), to: "feed/channels/beta.json")
        try workspace.folder.write(Array("{".utf8), to: "feed/trust.json")
        try workspace.folder.write(Array("{".utf8), to: "feed/manifest.json")
        let broken = try html()
        #expect(broken.contains("This is not a channel document") && broken.contains("This is not a trust root"))
        #expect(broken.contains("manifest.json is not a manifest"))
        #expect(broken.contains("<b>1.0.0</b> is live for every device"))
        try workspace.folder.write(Array("{".utf8), to: "feed/channels/stable/3.json")
        #expect(try html().contains("The copy channels/stable/3.json is damaged"))
        try workspace.location.remove("channels/stable/3.json")
        try workspace.location.remove("channels/stable.json")
        let lost = try html()
        #expect(lost.contains("channels/stable.json is missing. Restore it") && lost.contains("starts with 1.0.0"))
        try put([try release("1.0.0")]) { $0.expires = $0.issuedAt.adding(.seconds(1)) }
        let late = try PageReader(workspace.location, trust: nil, clock: workspace.start.adding(.seconds(5))).page()
            .html()
        #expect(late.contains(#"<span class="tag bad">expired</span>"#))
    }

    // MARK: Markup

    private static let hostile = """
        </li></ol><script>alert(1)</script><img src=x onerror=alert(1)>" onclick="alert(1)' <style>*{display:none}</style>
        <meta http-equiv=refresh content="0;url=//evil"> &lt;b&gt; \u{202E}moor\u{0} <a href=javascript:alert(1)>
        """

    private func reports(_ version: String, _ code: String) -> ChannelReports {
        func series(_ labels: [String: String], _ counts: Int...) -> MetricsEngine.Series {
            .init(
                labels: labels.merging(["version": version]) { first, _ in first },
                samples: counts.enumerated().map { .init(time: 1_800_000_000 + 3600 * $0, count: $1) })
        }
        return ChannelReports(
            counts: [series(["fact": "confirmed"], 5000), series(["fact": "failed", "code": code], 12)],
            courses: [series([:], 10, 2000, 5000)])
    }

    @Test func `contains no element or attribute from the feed`() throws {
        func outline(_ text: String) throws -> (html: String, tags: [String]) {
            try put([try release("1.0.0", notes: text), try release("1.1.0", rollout: 10)]) {
                $0.appId = text
                $0.recalled = [.init(version: $0.releases[0].version, reason: text)]
            }
            var page = try page(trust: trust)
            page.warnings = [text]
            page.channels[0].reports = reports(text, text)
            let html = try page.html()
            return (html, Self.outline(html))
        }
        let (plain, tags) = try outline("one\ntwo")
        let (hostile, hostileTags) = try outline(Self.hostile)
        #expect(tags == hostileTags)
        #expect(tags.count > 100 && !plain.contains("<script") && !hostile.contains("<script"))
        #expect(!hostile.contains("\u{202E}") && !hostile.contains("\u{0}"))
        #expect(hostile.contains("&lt;script&gt;alert(1)&lt;/script&gt;"))
    }

    @Test func `loads nothing, runs nothing, and has one style sheet that its policy allows`() throws {
        try put([try release("1.0.0")])
        let html = try html()
        let style = try #require(html.firstMatch(of: /<style>([^<]*)<\/style>/)?.output.1)
        let digest = try SHA256Digest.of(Array(style.utf8)).withUnsafeBytes { Base64.encode(Array($0)) }
        #expect(
            html.contains(
                "content=\"default-src &#39;none&#39;; style-src &#39;sha256-\(digest)&#39;; base-uri &#39;none&#39;; "
                    + "form-action &#39;none&#39;\""))
        #expect(html.ranges(of: "<style").count == 1)
        for forbidden in [
            "<script", "<link", "<img", "<iframe", " src", " style=", "url(", "@import", "http:", "https:",
        ] {
            #expect(!html.contains(forbidden), "\(forbidden)")
        }
        #expect(html.matches(of: /href="([^"]*)"/).allSatisfy { $0.output.1.hasPrefix("#") })
    }

    @Test func `stays below its size limit with 200 releases, and states what does not fit`() throws {
        let notes = String(repeating: "\"<&>'", count: 100)
        try put(try (1...200).map { try release("1.\($0).0", notes: notes) })
        let whole = try page(trust: trust)
        let html = try whole.html()
        #expect(html.utf8.count < 200_000)
        #expect(html.ranges(of: "<li class=\"line\">").count == 190 && html.contains("<b>1.1.0</b>"))
        var crowd = whole
        crowd.channels = (0..<120).map {
            .init(
                name: "c\($0)", content: whole.channels[0].content, history: whole.channels[0].history,
                reports: reports(notes, notes))
        }
        crowd.warnings = Array(repeating: notes, count: 500)
        let crowded = try crowd.html()
        #expect(crowded.utf8.count <= ReleasePage.maximumBytes)
        #expect(crowded.contains("more channels do not fit on this page") && crowded.contains("older ones"))
    }

    // MARK: Reports

    @Test func `adds up the reports of devices and plots them`() throws {
        let counts = [
            (["version": "1.9.0", "fact": "installed", "route": "delta"], 900),
            (["version": "1.9.0", "fact": "installed", "route": "archive"], 300),
            (["version": "1.10.0", "fact": "confirmed"], 4500),
            (["version": "1.9.0", "fact": "failed", "code": "a"], 2),
            (["version": "1.9.0", "fact": "failed", "code": "b"], 30), (["version": "x", "fact": "blocked"], 1),
            (["fact": "blocked"], 7),
        ].map { MetricsEngine.Series(labels: $0, samples: [.init(time: 1, count: $1)]) }
        let reports = ChannelReports(counts: counts, courses: [])
        #expect(reports.releases.map(\.version) == ["1.10.0", "1.9.0", "x"])
        #expect(reports.releases[1].routes == ["delta": 900, "archive": 300])
        #expect(reports.releases[1].failures == ["a": 2, "b": 30] && reports.mostDevices == 4500)
        try put([try release("1.10.0")])
        var page = try page()
        page.channels[0].reports = reports
        #expect(try page.html().contains("<b>1.9.0</b> 1,200 installed · 32 failed (b 30, a 2)"))
        page.channels[0].reports = self.reports("1.10.0", "a")
        let plotted = try page.html()
        #expect(plotted.contains(#"<polyline class="c0" points="0,300 500,180 1000,0">"#))
        #expect(
            plotted.contains("at most 5,000") && plotted.contains("1.10.0: 5,000")
                && plotted.contains(">2027-01-15</time>"))
        let courses = [[(0, 4), (10, 4)], [(5, 2), (10, 4)], [(10, 2)]].map {
            $0.map { ChannelReports.Course.Point(time: $0.0, count: $0.1) }
        }
        let lines = PagePlot.courses(courses, times: 0...10, most: 4).html.matches(of: /points="([^"]*)"/)
        #expect(lines.map(\.output.1) == ["0,0 1000,0", "492,300 500,150 1000,0", "992,300 1000,150"])
        page.channels[0].reports = ChannelReports(counts: [], courses: [])
        #expect(try page.html().contains("No device has reported anything."))
    }

    @Test func `reads counts over time from Prometheus`() throws {
        func parse(_ values: String) throws -> [MetricsEngine.Series] {
            try MetricsEngine.series(
                parsing: Array(
                    #"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"version":"1.0.0"},"values":[\#(values)]}]}}"#
                        .utf8), kind: "matrix", member: "values", of: "http://h")
        }
        #expect(
            try parse(#"[10,"1"],[20,"2"]"#) == [
                .init(labels: ["version": "1.0.0"], samples: [.init(time: 10, count: 1), .init(time: 20, count: 2)])
            ])
        for bad in ["", "7", "[]", #"["10","1"]"#, #"[10,"NaN"]"#, #"[10,"1"],[20]"#] {
            #expect(throws: UpdateFailure.self) { try parse(bad) }
        }
    }
}
