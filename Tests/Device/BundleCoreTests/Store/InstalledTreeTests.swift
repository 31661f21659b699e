import BundleDisk
import BundleTesting
import Testing

@testable import BundleCore

/// Tests the differences between an installed client and its receipt.
struct InstalledTreeTests {
    private static let receipt = "receipts/v1.0.0.json"

    private static func lines(_ bench: StoreBench, _ change: (inout [Substring]) -> Void) throws {
        var lines = (try bench.text(receipt) ?? "").split(separator: "\n", omittingEmptySubsequences: false)
        change(&lines)
        try bench.write(lines.joined(separator: "\n"), to: receipt)
    }

    static let damages: [(told: String, spoil: @Sendable (StoreBench) throws -> Void)] = [
        ("its receipt is missing", { try $0.remove(receipt) }),
        ("has an invalid line", { try lines($0) { $0[1] = #"{"path":"assets/app.js"},"# } }),
        ("lists assets/app.js twice", { try lines($0) { $0.insert($0[1], at: 1) } }),
        ("assets/app.js is missing", { try $0.remove("clients/v1.0.0/assets/app.js") }),
        ("index.html has other content", { try $0.write("Client 1.0.0", to: "clients/v1.0.0/index.html") }),
        ("index.html has other content", { try $0.write("client 1.0.0 ", to: "clients/v1.0.0/index.html") }),
        ("has other files", { try $0.write("", to: "clients/v1.0.0/assets/more.js") }),
    ]

    @Test(arguments: damages.indices) func `reports the first difference`(_ index: Int) async throws {
        let (message, spoil) = Self.damages[index]
        let bench = try await StoreBench(installing: "1.0.0")
        let bundle = try #require(try Inventory.read(at: bench.path).bundles.first)
        #expect(try InstalledTree.difference(of: bundle, inStoreAt: bench.path) == nil)
        try spoil(bench)
        let difference = try InstalledTree.difference(of: bundle, inStoreAt: bench.path)
        #expect(difference?.contains(message) == true, "\(message): \(difference ?? "nothing")")
    }
}
