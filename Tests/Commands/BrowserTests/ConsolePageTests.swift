import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// The pages of `clientctl console` in a browser.
@Suite(.ownThread, .needsBrowser) struct ConsolePageTests {
    private let browser: Browser
    private let kiosk: Kiosk
    private let program: Program
    private let page: BrowserPage

    init() throws {
        browser = try Browser.forAllTests()
        kiosk = try Kiosk()
        let key = kiosk.folder.file("release.key.pem")
        let channel = ["--channel", "stable", "--channel-key", key]
        for (version, more) in [("1.0.0", []), ("1.1.0", ["--rollout", "1%"])] as [(String, [String])] {
            try kiosk.publish(
                try kiosk.folder.writeTree(DemoClient.good(version).files, to: "web-\(version)"), as: version,
                more: channel + more)
        }
        program = try kiosk.start(
            ["console", "--no-open", "--feed", kiosk.folder.file("feed"), "--trust", kiosk.trust] + channel)
        let deadline = ContinuousClock.now + Browser.patience
        var address: Substring?
        while address == nil {
            address = try program.printed().output.firstMatch(of: /http:\/\/127\.0\.0\.1:[0-9]+\/\?code=[0-9a-f]+\n/)?
                .output
            if address != nil { break }
            if let ending = try program.wait(within: .milliseconds(20)) { throw Serving.Ended(errors: ending.errors) }
            try #require(ContinuousClock.now < deadline, "the console gives no address")
        }
        page = try browser.open(String((address ?? "").dropLast()), inWindow: true)
        try page.wait(until: "document.title.endsWith('console') && location.search === ''")
    }

    /// Follows the link with this text.
    private func follow(_ text: String, until expression: String) throws {
        try page.wait(until: "[...document.links].some(link => link.textContent === '\(text)')")
        _ = try page.evaluate("[...document.links].find(link => link.textContent === '\(text)').click(); null")
        try page.wait(until: expression)
    }

    /// Presses the button with this text after `prepare`, and waits for the page whose heading contains `heading`.
    private func press(_ button: String, _ prepare: String = "", heading: String) throws {
        _ = try page.evaluate(
            "{ let button = [...document.querySelectorAll('button')].find(button => button.textContent === '\(button)');"
                + "let form = button.form; \(prepare); button.click(); } null")
        try page.wait(
            until: "document.querySelector('h1') && document.querySelector('h1').textContent.includes('\(heading)')")
    }

    private func channel() throws -> String {
        try kiosk.run(["channel", "list", "--feed", kiosk.folder.file("feed"), "--channel", "stable", "--json"]).text
    }

    @Test func `a person changes a rollout and recalls a release by forms`() throws {
        try follow("1.1.0", until: "document.querySelector('h1').textContent === '1.1.0 in stable'")
        try press("Set percentage", "form.percent.value = '10%'", heading: "Set percentage?")
        let question = try page.evaluate("document.body.innerText").stringValue ?? ""
        #expect(question.contains("1% of the devices → 10% of the devices"), "\(question)")
        #expect(try page.evaluate("document.querySelectorAll('ins').length > 0") == .bool(true))
        try press("Set percentage", heading: "Done")
        #expect(try channel().contains("\"sequence\": 3"))
        try page.navigate((try page.evaluate("location.origin").stringValue ?? "") + "/")
        try follow("1.1.0", until: "document.querySelector('h1').textContent === '1.1.0 in stable'")
        try press("Recall", "form.reason.value = '<b>white</b> screen'", heading: "Recall?")
        #expect(try page.evaluate("document.querySelectorAll('main b').length") == .integer(0))
        try press("Recall", heading: "Done")
        #expect(try channel().contains("<b>white</b> screen"))
        #expect(page.console == [])
    }

    @Test func `each page fits a phone, has no scripts and can be used by keyboard`() throws {
        let origin = try page.evaluate("location.origin").stringValue ?? ""
        for path in ["/", "/release/stable/1.1.0", "/history/stable"] {
            try page.navigate(origin + path)
            for scheme in ["light", "dark"] {
                try page.emulate(width: 390, scheme: scheme)
                let name = path.replacing("/", with: "-")
                #expect(try ScreenshotFolder.keep(page, as: "console\(name)-390-\(scheme)").count > 2000)
                let widest = try page.evaluate("document.documentElement.scrollWidth").integerValue
                #expect(widest.map { $0 <= 390 } == true, "\(path): \(widest ?? 0)")
            }
            let unlabeled = """
                [...document.querySelectorAll('input:not([type=hidden])')].filter(input => !input.labels.length).length
                + [...document.querySelectorAll('button, a')].filter(one => !one.textContent.trim() || one.tabIndex < 0).length
                """
            #expect(try page.evaluate(unlabeled) == .integer(0), "\(path)")
            #expect(try page.evaluate("document.scripts.length + document.images.length") == .integer(0))
        }
        #expect(page.console == [])
    }
}
