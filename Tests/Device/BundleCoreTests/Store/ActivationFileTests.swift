import BundleTesting
import BundleValues
import Testing

@testable import BundleCore

@Suite struct ActivationFileTests {
    private let bench: LaunchBench
    private let file: ActivationFile
    private let request: ActivationRequest

    init() async throws {
        bench = try await LaunchBench(installing: "1.0.0")
        file = ActivationFile(store: bench.store)
        request = ActivationRequest(try Sample.name("1.0.0"), waitsForBusyPages: true)
    }

    @Test func `a request lasts until it ends`() throws {
        #expect(file.pending() == nil)
        let held = try file.hold(request)
        #expect(file.pending() == request)
        #expect(try bench.text("activation.json")?.contains("v1.0.0") == true)
        held.end()
        #expect(file.pending() == nil)
        #expect(try bench.text("activation.json") == nil)
    }

    @Test func `refuses a second request while the first one lasts`() throws {
        let held = try file.hold(request)
        #expect(throws: UpdateFailure.self) { try file.hold(request).end() }
        #expect(file.pending() == request)
        held.end()
        try file.hold(request).end()
    }

    @Test func `ignores and replaces the file of a process that was killed`() throws {
        try file.hold(request).end()
        let text = #"{"client": "v9.0.0", "waitsForBusyPages": false}"#
        try bench.overwrite("activation.json", Array(text.utf8))
        try bench.overwrite("activation.json.new", [1])
        #expect(file.pending() == nil)
        let held = try file.hold(request)
        #expect(file.pending() == request)
        held.end()
    }

    @Test func `ignores content that is not a request`() throws {
        let held = try file.hold(request)
        for text in ["", "{}", "[", #"{"client": "../x", "waitsForBusyPages": true}"#] {
            try bench.overwrite("activation.json", Array(text.utf8))
            #expect(file.pending() == nil)
        }
        held.end()
    }
}
