import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

/// Tests the reports to a page about the clients of its device.
@Suite(.ownThread, .needsBrowser) struct PageNewsTests {
    let browser: Browser
    let kiosk: Kiosk

    init() throws {
        browser = try Browser.forAllTests()
        kiosk = try Kiosk()
    }

    @Test func `a page gets the progress, notes and size of a release before it shows it`() throws {
        let listening = """
            var seen = [];
            var plugin = Capacitor.Plugins.CapacitorMeteorWebApp;
            for (const name of ['updateAvailable', 'downloadProgress']) plugin.addListener(name, event => { seen.push([name, event]); });

            """
        try kiosk.install(.doing("1.0.0", listening + DemoClient.Scripts.confirm))
        var next = DemoClient.doing("2.0.0", DemoClient.Scripts.confirm)
        next.more = ["large.js": (0..<40_000).map { "\($0 &* 2_654_435_761 % 1_000_003)" }.joined(separator: ";")]
        let notes = try kiosk.folder.write(bytes("Faster, and \u{201C}quieter\u{201D} <b>."), to: "notes.txt")
        let serving = try kiosk.serve(["--manifest", kiosk.manifest, "--trust", kiosk.trust, "--check-interval", "1s"])
        let page = try browser.open(serving.root + "/", inWindow: true)
        try page.wait(until: "window.confirmed")
        try kiosk.publish(
            try kiosk.folder.writeTree(next.files, to: "web-2"), as: "2.0.0", more: ["--notes", notes, "--no-deltas"])
        try page.wait(until: "seen.some(event => event[0] === 'updateAvailable')")
        let ready = try page.evaluate(
            "(() => { const all = seen.filter(e => e[0] === 'updateAvailable'); return JSON.stringify(all.map(e => [e[1].version, e[1].notes, e[1].urgent])) })()"
        )
        #expect(ready.stringValue == "[[\"2.0.0\",\"Faster, and \u{201C}quieter\u{201D} <b>.\",false]]")
        let status =
            "plugin.getStatus().then(it => it.ready.size === seen.find(e => e[0] === 'updateAvailable')[1].size)"
        #expect(try page.evaluate(status) == .bool(true))
        try page.wait(until: "seen.some(event => event[0] === 'downloadProgress' && event[1].of > 0)")
    }

    @Test func `a page gets no notes that differ from their digest in the manifest`() throws {
        try kiosk.install(.doing("1.0.0", DemoClient.Scripts.confirm))
        let notes = try kiosk.folder.write(bytes("Faster."), to: "notes.txt")
        let next = try kiosk.folder.writeTree(DemoClient.doing("2.0.0", DemoClient.Scripts.confirm).files, to: "web-2")
        try kiosk.publish(next, as: "2.0.0", more: ["--notes", notes])
        _ = try kiosk.folder.write(bytes("Buy now."), to: "feed/releases/v2.0.0/notes.txt")
        let serving = try kiosk.serve(["--manifest", kiosk.manifest, "--trust", kiosk.trust, "--check-interval", "1s"])
        let page = try browser.open(serving.root + "/", inWindow: true)
        try page.wait(until: "window.confirmed")
        let ready =
            "Capacitor.Plugins.CapacitorMeteorWebApp.getStatus().then(it => JSON.stringify(it.installed.filter(one => one.version === '2.0.0').map(one => one.notes)))"
        try page.wait(for: "2.0.0 is installed") { try $0.evaluate(ready).stringValue == "[null]" }
    }
}
