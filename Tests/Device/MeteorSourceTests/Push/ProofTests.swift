import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Synchronization
import Testing

/// Tests the evidence for files, from the server to the store (METEOR section 1.5).
@Suite("Hot code push: proof of files", .ownThread)
struct ProofTests {
    private func pushed(_ mode: VerificationMode = .compatible) throws -> PushedDevice {
        let device = try PushedDevice.app(App.bundle("v1", [App.asset("a.txt", "a")])) { $0.verification = mode }
        try device.restart()
        return device
    }

    private func version(_ hashes: HashScheme = .modern) -> MeteorBundleBuilder {
        App.bundle("v2", [App.script("app.js", "run('v2');\n"), App.asset("x.png", "picture")], hashes: hashes)
    }

    @Test(
        "N-02: accepts the hashes of a modern server in the strict mode",
        arguments: [HashScheme.bytes, .modern])
    func modern(hashes: HashScheme) async throws {
        let device = try pushed(.strict)
        try device.deploy(version(hashes))
        for path in ["/app/app.js", "/x.png"] { device.server.fault(path, .entityTag(nil)) }
        try await device.update()
        try device.reload()
        #expect(try device.text("/app/app.js") == "run('v2');\n")
        #expect(try device.text("/x.png") == "picture")
    }

    @Test(
        "N-02: rejects one changed bit, with or without the label of the server", arguments: ["/app/app.js", "/x.png"])
    func flippedBit(path: String) async throws {
        let device = try pushed()
        for tag in [Fault.none, .entityTag(nil)] {
            try device.deploy(version(), as: "v2 \(device.server.versions.count)")
            device.server.fault(path, .all([.corrupt(at: 3), tag]))
            try await device.expectRefusal(.digestMismatch, "Hash mismatch for asset: \(path)")
            #expect(device.requests[Requests.of(path).keys.first ?? ""] == 1)
            device.server.heal()
        }
    }

    /// An entity tag as a proxy can change it, and whether it is still evidence.
    struct Tag: CustomTestStringConvertible {
        let testDescription: String
        let fault: Fault
        let isLabel: Bool
    }

    static let tags = [
        Tag(testDescription: "as it is", fault: .none, isLabel: true),
        Tag(testDescription: "weak", fault: .weakTag, isLabel: true),
        Tag(testDescription: "header names in lower case", fault: .lowerCaseNames, isLabel: true),
        Tag(
            testDescription: "header names in upper case", fault: .headerNames { $0.uppercased() }, isLabel: true),
        Tag(testDescription: "-gzip", fault: .gzipTag, isLabel: false),
        Tag(testDescription: "upper-case digits", fault: .upperCaseTag, isLabel: false),
        Tag(testDescription: "absent", fault: .entityTag(nil), isLabel: false),
        Tag(testDescription: "another form", fault: .entityTag("\"123-abc\""), isLabel: false),
        Tag(testDescription: "without quotes", fault: .entityTag(String(repeating: "0", count: 40)), isLabel: false),
    ]

    @Test("N-04: accepts a file whose only evidence is its label", arguments: tags)
    func label(tag: Tag) async throws {
        let compatible = try pushed()
        try compatible.deploy(version(.saltedContents))
        for path in ["/app/app.js", "/x.png"] { compatible.server.fault(path, tag.fault) }
        try await compatible.update()
        #expect(try compatible.versionsOnDisk() == ["v2"])

        let strict = try pushed(.strict)
        try strict.deploy(version(.saltedContents))
        for path in ["/app/app.js", "/x.png"] { strict.server.fault(path, tag.fault) }
        if tag.isLabel {
            try await strict.update()
            #expect(try strict.versionsOnDisk() == ["v2"])
        } else {
            try await strict.expectRefusal(.digestMismatch, "nothing proves")
        }
    }

    static let foreign = String(repeating: "0", count: 40)

    @Test(
        "N-04: rejects the label of other content in every form",
        arguments: [
            [Fault.entityTag("\"\(foreign)\"")], [.entityTag("W/\"\(foreign)\"")],
            [.entityTag("\"\(foreign)\""), .lowerCaseNames],
        ])
    func foreignLabel(faults: [Fault]) async throws {
        for hashes in HashScheme.allCases {
            let device = try pushed()
            try device.deploy(version(hashes))
            device.server.fault("/app/app.js", .all(faults))
            try await device.expectRefusal(.digestMismatch, "Hash mismatch for asset: /app/app.js")
        }
    }

    @Test("rejects a script without proof if another one is proven")
    func inconsistent() async throws {
        let device = try pushed()
        try device.deploy(
            App.bundle("v2", [App.script("app.js", "run('v2');\n"), App.script("b.js", "b\n")], hashes: .bytes))
        device.server.fault("/app/b.js", .all([.content(Array("evil()\n".utf8)), .entityTag(nil)]))
        try await device.expectRefusal(.digestMismatch, "Hash mismatch for asset: /app/b.js")
    }

    @Test("N-05: rejects the page of a captive portal instead of a script", arguments: HashScheme.allCases)
    func captivePortal(hashes: HashScheme) async throws {
        let device = try pushed()
        try device.deploy(version(hashes))
        device.server.fault("/app/app.js", .captivePortal)
        try await device.expectRefusal(.digestMismatch, "a web page came in its place")
    }

    @Test("N-05: rejects the page of a captive portal instead of the index page")
    func captivePortalAsIndex() async throws {
        let device = try pushed()
        try device.deploy(version())
        device.server.fault("/", .captivePortal)
        try await device.expectRefusal(
            .unsuitableBundle, "Couldn't load runtime config from index file",
            requests: Requests.of("/manifest.json", "/"))
    }

    @Test("P14: reports the page of a captive portal instead of the manifest as a page")
    func captivePortalAsManifest() async throws {
        let device = try pushed()
        try device.deploy(version())
        device.server.fault("/manifest.json", .captivePortal)
        try await device.expectRefusal(
            .manifestMalformed, "the server answered with an HTML page", requests: Requests.of("/manifest.json"))
    }

    private func mapped() -> MeteorBundleBuilder {
        var script = App.script("app.js", "run('v2');\n")
        script.sourceMap = .init(.text("{}"), url: "/app/app.js.map")
        return App.bundle("v2", [script])
    }

    @Test("SW-42, P25: ignores a missing source map")
    func missingMap() async throws {
        let device = try pushed()
        try device.deploy(mapped())
        device.server.fault("/app/app.js.map", .status(404))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/app/app.js", "/app/app.js.map"))
        try device.reload()
        #expect(try device.text("/app/app.js") == "run('v2');\n")
        #expect(try device.text("/app/app.js.map") == nil)
    }

    @Test("fails for a source map with a status other than 404")
    func failingMap() async throws {
        let device = try pushed()
        try device.deploy(mapped())
        device.server.fault("/app/app.js.map", .status(403))
        try await device.expectRefusal(.httpStatus, "Non-success status code 403 for asset: /app/app.js.map")
    }

    @Test("does not link unproven files of an installed version in the strict mode")
    func strictReuse() async throws {
        let mode = Mode()
        let device = try PushedDevice.app(App.bundle("v1", [App.asset("a.txt", "a")])) { $0.verification = mode.value }
        try device.restart()
        try device.deploy(version())
        device.server.fault("/app/app.js", .all([.content(Array("evil".utf8)), .entityTag(nil)]))
        try await device.activate()
        #expect(try device.text("/app/app.js") == "evil")
        device.server.heal()

        mode.value = .strict
        try device.deploy(App.bundle("v3", [App.script("app.js", "run('v2');\n"), App.asset("x.png", "picture")]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/app/app.js"))
        try device.reload()
        #expect(try device.text("/app/app.js") == "run('v2');\n")
    }

    @Test("does not link unproven files of an interrupted attempt in the strict mode")
    func strictResume() async throws {
        let mode = Mode()
        let device = try PushedDevice.app(App.bundle("v1", [App.asset("a.txt", "a")])) { $0.verification = mode.value }
        try device.restart()
        try device.deploy(version())
        device.server.fault("/app/app.js", .all([.content(Array("evil".utf8)), .entityTag(nil)]))
        try await device.interrupt(after: ["/app/app.js"], holding: ["/x.png"])
        device.server.heal()

        mode.value = .strict
        try await device.update()
        try device.reload()
        #expect(try device.text("/app/app.js") == "run('v2');\n")
    }

    /// The verification mode, which a test can change.
    private final class Mode: Sendable {
        private let state = Mutex(VerificationMode.compatible)
        var value: VerificationMode {
            get { state.withLock { $0 } }
            set { state.withLock { $0 = newValue } }
        }
    }

    // MARK: Encodings and ends

    @Test("rejects a body in an encoding that was not requested", arguments: ["/", "/app/app.js", "/x.png"])
    func encoded(path: String) async throws {
        let device = try pushed()
        try device.deploy(version(.saltedContents))
        device.server.fault(
            path, .all([.content([0x1F, 0x8B]), .change { $0.headers.append(("Content-Encoding", "gzip")) }]), times: 1)
        try await device.update()
        try device.reload()
        #expect(try device.text("/app/app.js") == "run('v2');\n")
        #expect(try device.text("/x.png") == "picture")
    }

    @Test("requests a possibly truncated body again unless its bytes are proven")
    func undelimited() async throws {
        let untilClose = Fault.change { $0.framing = .untilClose }
        let device = try pushed()
        try device.deploy(version())
        device.server.fault("/app/app.js", .all([.content(Array("run('".utf8)), untilClose]), times: 1)
        device.server.fault("/x.png", untilClose)
        device.server.fault("/", untilClose, times: 1)
        try await device.update()
        #expect(
            device.requests == Requests.of("/manifest.json", "/", "/", "/app/app.js", "/app/app.js", "/x.png"))
        try device.reload()
        #expect(try device.text("/app/app.js") == "run('v2');\n")
    }

    // MARK: Sizes

    @Test("accepts an empty file")
    func emptyFile() async throws {
        let device = try pushed(.strict)
        try device.deploy(App.bundle("v2", [App.asset("empty.txt", ""), App.script("empty.js", "")]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/empty.txt", "/app/empty.js"))
        try device.reload()
        #expect(try device.served("/empty.txt") == [])
        #expect(try device.served("/app/empty.js") == [])
    }

    @Test("ends the download of a file that is much larger than its size")
    func endless() async throws {
        let device = try pushed()
        var entry = BundleEntry("app/large.bin", url: "/large.bin", .bytes(noise(3_000_000)))
        entry.size = 10
        try device.deploy(App.bundle("v2", [entry]))
        try await device.expectRefusal(.sizeMismatch, "/large.bin")
    }

    @Test("requests a body again that ends before its Content-Length")
    func shortBody() async throws {
        let device = try pushed()
        try device.deploy(version())
        device.server.fault("/x.png", .contentLength("500"), times: 1)
        try await device.update()
        // The second request asks for the bytes after the part, of which there are none (416).
        #expect(device.requests == Requests.of("/manifest.json", "/", "/app/app.js", "/x.png", "/x.png", "/x.png"))
        try device.reload()
        #expect(try device.text("/x.png") == "picture")
    }

    @Test("rejects a body that its Content-Length truncates")
    func cutBody() async throws {
        let device = try pushed()
        try device.deploy(version())
        device.server.fault("/x.png", .contentLength("5"))
        try await device.expectRefusal(.digestMismatch, "Hash mismatch for asset: /x.png")
    }

    @Test("accepts a file without a hash in every mode")
    func noHash() async throws {
        for mode in [VerificationMode.compatible, .strict] {
            let device = try pushed(mode)
            var entry = App.asset("x.txt", "text")
            entry.hash = .absent
            try device.deploy(App.bundle("v2", [entry]))
            try await device.update()
            try device.reload()
            #expect(try device.text("/x.txt") == "text")
        }
    }
}
