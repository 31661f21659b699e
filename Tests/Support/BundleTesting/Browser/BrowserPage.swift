package import BundleValues
import BundleSigning

/// A page in a browser, separate from all others. It is closed with its last reference.
package final class BrowserPage: Sendable {
    private let browser: Browser
    private let profile: BrowserProfile
    private let session: String
    private let hasWindow: Bool
    /// The main frame has the name of the target.
    private let frame: String
    /// The initial empty document.
    private let blank: String

    private static let events = [
        "Page.enable", "Runtime.enable", "Network.enable", "Log.enable", "Inspector.enable",
    ]

    init(_ browser: Browser, in profile: BrowserProfile? = nil, hasWindow: Bool, within limit: Duration) throws {
        self.browser = browser
        self.hasWindow = hasWindow
        let wire = browser.wire
        let profile = try profile ?? BrowserProfile(wire, within: limit)
        self.profile = profile
        // A window is most of the cost of a page. A page without one still reports itself as visible.
        let target = try wire.call(
            "Target.createTarget",
            ["url": .string("about:blank"), "browserContextId": .string(profile.name), "hidden": .bool(!hasWindow)],
            within: limit)
        frame = target.text("targetId")
        session = try wire.call(
            "Target.attachToTarget", ["targetId": .string(frame), "flatten": .bool(true)], within: limit
        ).text("sessionId")
        for method in Self.events { _ = try wire.call(method, session: session, within: limit) }
        _ = try wire.call(
            "Page.setLifecycleEventsEnabled", ["enabled": .bool(true)], session: session, within: limit)
        let tree = try wire.call("Page.getFrameTree", session: session, within: limit)
        blank = tree.object("frameTree").object("frame").text("loaderId")
        if !hasWindow { try resize(to: (800, 600), isMobile: false, within: limit) }
    }

    deinit {
        browser.wire.send("Target.closeTarget", ["targetId": .string(frame)])
        browser.wire.forget(session)
    }

    /// Opens another page that shares cookies, storage and cache with this one.
    package func openBeside(_ url: String, within limit: Duration = Browser.patience) throws -> BrowserPage {
        let page = try BrowserPage(browser, in: profile, hasWindow: hasWindow, within: limit)
        try page.navigate(url, within: limit)
        return page
    }

    /// The messages of the page and the browser in order of arrival.
    package var console: [ConsoleMessage] { record.console }

    /// The requests so far, including those of earlier documents.
    package var requests: [PageRequest] { record.requests }

    /// The text messages that the page's WebSockets have sent, including those of earlier documents.
    package var sentMessages: [String] { record.sentMessages }

    /// The number of loaded documents, without the initial empty one.
    package var loads: Int { record.loaded.count { $0.frame == frame && $0.loader != blank } }

    private var record: PageRecord { browser.wire.record(of: session) }

    /// Loads `url` and waits for the load event.
    package func navigate(_ url: String, within limit: Duration = Browser.patience) throws {
        let deadline = ContinuousClock.now + limit
        let answer: JSONObject
        do {
            answer = try call("Page.navigate", ["url": .string(url)], within: limit)
        } catch BrowserError.timedOut {
            throw BrowserError.timedOut("\(url) did not answer within \(limit)")
        }
        if let reason = answer["errorText"]?.stringValue { throw BrowserError.notLoaded(url: url, reason: reason) }
        // Without a loader, only the fragment changed.
        guard let loader = answer["loaderId"]?.stringValue else { return }
        try wait("\(url) was not loaded within \(limit)", deadline) { record in
            record.loaded.contains { $0.loader == loader } ? true : nil
        }
    }

    /// Reloads the page like the button and waits for the load event.
    package func reload(within limit: Duration = Browser.patience) throws {
        let deadline = ContinuousClock.now + limit
        let before = loads
        _ = try call("Page.reload", within: limit)
        try wait("the page was not loaded again within \(limit)", deadline) { _ in loads > before ? true : nil }
    }

    /// Returns the value of a JavaScript expression, after its promise is settled.
    ///
    /// Undefined becomes null, and a number that is not an integer becomes a string. Exceptions and rejections are
    /// errors.
    @discardableResult
    package func evaluate(_ expression: String, within limit: Duration = Browser.patience) throws -> JSONValue {
        let answer = try call(
            "Runtime.evaluate",
            [
                "expression": .string(expression), "awaitPromise": .bool(true), "returnByValue": .bool(true),
                "userGesture": .bool(true),
            ], within: limit)
        if let details = answer["exceptionDetails"]?.objectValue {
            throw BrowserError.exception("\(details.text("text")) \(PageRecord.text(details.object("exception")))")
        }
        let result = answer.object("result")
        return result["value"] ?? .string(orNull: result["unserializableValue"]?.stringValue)
    }

    /// Waits until a JavaScript expression or its promise is true, also across page loads.
    package func wait(until expression: String, within limit: Duration = Browser.patience) throws {
        let deadline = ContinuousClock.now + limit
        var last = "it is false"
        while true {
            let left = deadline - ContinuousClock.now
            guard left > .zero else {
                throw BrowserError.timedOut("`\(expression)` was not true within \(limit): \(last)")
            }
            do {
                if try evaluate("(async () => !!(await (\(expression))))()", within: left) == .bool(true) { return }
                last = "it is false"
            } catch let error as BrowserError {
                if case .ended = error { throw error }
                last = "\(error)"
            }
            pause()
        }
    }

    /// Waits until `condition` is true for this page. `what` describes it in errors.
    package func wait(
        for what: String, within limit: Duration = Browser.patience, _ condition: (BrowserPage) throws -> Bool
    ) throws {
        try wait("\(what), within \(limit)", ContinuousClock.now + limit) { _ in try condition(self) ? true : nil }
    }

    /// Emulates a screen of `width` pixels and the color scheme `light` or `dark`, or paper if `isPrinted` is true.
    package func emulate(
        width: Int, height: Int = 800, scheme: String = "light", isPrinted: Bool = false,
        within limit: Duration = Browser.patience
    ) throws {
        try resize(to: (width, height), isMobile: true, within: limit)
        let feature: JSONObject = ["name": .string("prefers-color-scheme"), "value": .string(scheme)]
        _ = try call(
            "Emulation.setEmulatedMedia",
            ["media": .string(isPrinted ? "print" : ""), "features": .array([.object(feature)])], within: limit)
    }

    private func resize(to size: (width: Int, height: Int), isMobile: Bool, within limit: Duration) throws {
        _ = try call(
            "Emulation.setDeviceMetricsOverride",
            [
                "width": .integer(size.width), "height": .integer(size.height), "deviceScaleFactor": .integer(1),
                "mobile": .bool(isMobile),
            ], within: limit)
    }

    /// Returns a PNG of the page with 800 columns. The page must have a window.
    package func screenshot(within limit: Duration = Browser.patience) throws -> [UInt8] {
        guard hasWindow else {
            throw BrowserError.refused(method: "Page.captureScreenshot", message: "the page has no window")
        }
        let answer = try call("Page.captureScreenshot", ["format": .string("png")], within: limit)
        return try Base64.decode(answer.text("data"))
    }

    /// Presses the main button of a mouse at a point of the viewport, as a person does.
    package func click(x: Int, y: Int) throws {
        for type in ["mousePressed", "mouseReleased"] {
            _ = try call(
                "Input.dispatchMouseEvent",
                [
                    "type": .string(type), "x": .integer(x), "y": .integer(y), "button": .string("left"),
                    "clickCount": .integer(1),
                ], within: Browser.patience)
        }
    }

    private func call(_ method: String, _ parameters: JSONObject = [:], within limit: Duration) throws -> JSONObject {
        if record.hasCrashed { throw BrowserError.ended("the page crashed") }
        return try browser.wire.call(method, parameters, session: session, within: limit)
    }

    private func wait(
        _ what: String, _ deadline: ContinuousClock.Instant, _ condition: (PageRecord) throws -> Bool?
    ) throws {
        _ = try browser.wire.wait(what, until: deadline) { try condition(record) }
    }

    private func pause() {
        _ = try? browser.wire.wait("", until: ContinuousClock.now + .milliseconds(10)) { () -> Bool? in nil }
    }
}
