import BundleDisk
import BundleTesting
import Testing

@testable import BundleCore
import BundleValues

/// A damaged ledger must never unblock a version: each damaged byte is detected or changes nothing.
struct LedgerBytesTests {
    /// A ledger with a value in every member.
    private static func written() async throws -> (ledger: Ledger, bytes: [UInt8]) {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try await bench.install(try MemoryOffer("1.1.0", maximumShell: "2.0.0"))
        _ = try bench.launchAndFail()
        _ = try bench.launch()
        _ = try bench.launchAndFail()
        try await bench.install("1.2.0")
        _ = try bench.verdicts().rollBack(to: try Sample.name("1.0.0"))
        try bench.editLedger { $0.appId = "org.example.ü" }
        let ledger = try bench.ledger()
        #expect(ledger.blocks.count == 2)
        return (ledger, Array((try bench.text("ledger.json") ?? "").utf8))
    }

    private static func read(_ bytes: [UInt8], in folder: Directory) throws -> Ledger? {
        try folder.removeFile(StoreLayout.ledger)
        try bytes.withUnsafeBytes { try folder.createFile(StoreLayout.ledger, with: $0) }
        do {
            return try LedgerFile.read(folder)
        } catch let failure as UpdateFailure {
            #expect(failure.code == .storeDamaged)
            return nil
        }
    }

    @Test func `detects every truncated ledger`() async throws {
        let (ledger, bytes) = try await Self.written()
        let folder = try TemporaryDirectory.ofTests()
        #expect(try Self.read(bytes, in: folder.directory) == ledger)
        for count in 0..<bytes.count {
            let read = try Self.read(Array(bytes[..<count]), in: folder.directory)
            // The line break after the last brace is optional.
            #expect(read == (count == bytes.count - 1 && bytes.last == 10 ? ledger : nil), "cut to \(count) bytes")
        }
    }

    @Test func `detects every damaged byte of a ledger that changes its value`() async throws {
        let (ledger, bytes) = try await Self.written()
        let folder = try TemporaryDirectory.ofTests()
        var generator = SeededGenerator(seed: 0xB17)
        var unnoticed = 0
        for index in bytes.indices {
            let old = bytes[index]
            let random = UInt8.random(in: 1...255, using: &generator)
            var others = [old ^ 1, old ^ 32, old ^ 128, old &- 1, old ^ random]
            // A digit may become any other digit.
            if (48...57).contains(old) { others = Array(48...57).filter { $0 != old } + [old ^ 128] }
            for other in Set(others) {
                var spoilt = bytes
                spoilt[index] = other
                guard let read = try Self.read(spoilt, in: folder.directory) else { continue }
                unnoticed += 1
                #expect(
                    read == ledger,
                    "byte \(index) from \(old) to \(other): \(String(decoding: spoilt[max(0, index - 20)..<min(bytes.count, index + 20)], as: UTF8.self))"
                )
            }
        }
        print("ledger bytes: \(bytes.count) bytes, \(unnoticed) changes that say the same")
    }
}
