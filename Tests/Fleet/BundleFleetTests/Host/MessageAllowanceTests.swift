import Testing

@testable import BundleFleet

@Suite("MessageAllowance") struct MessageAllowanceTests {
    @Test func `allows a thousand messages at once and then five hundred per second`() {
        var allowance = MessageAllowance()
        let start = SuspendingClock.now
        #expect((0..<2000).filter { _ in allowance.consume(at: start) }.count == 1000)
        #expect((0..<2000).filter { _ in allowance.consume(at: start + .seconds(1)) }.count == 500)
        #expect((0..<2000).filter { _ in allowance.consume(at: start + .seconds(3600)) }.count == 1000)
    }
}
