import BundleValues
import Synchronization

/// A source that is opened at the first successful attempt, because the disk with its keys may be mounted late.
final class LateSource: Sendable {
    private let name: SourceName
    private let device: DeviceContainer
    private let made = Mutex<UpdateStep?>(nil)

    init(_ name: SourceName, of device: DeviceContainer) {
        self.name = name
        self.device = device
    }

    private func step() throws -> UpdateStep {
        try made.withLock { made in
            let step = try made ?? device.source(name)?.step ?? allOf([])
            made = step
            return step
        }
    }

    /// Returns the reason why the source cannot be opened now; nil if it is open.
    func trouble() -> (any Error)? {
        do {
            _ = try step()
            return nil
        } catch {
            return error
        }
    }

    /// Checks the source. A source that cannot be opened fails the check.
    func check() async -> CheckResult {
        do {
            return try await step()()
        } catch {
            return CheckResult(failures: [error], hasResponse: false, pace: nil)
        }
    }
}
