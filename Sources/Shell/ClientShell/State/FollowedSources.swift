import BundleValues
import Synchronization

/// The sources that a shell follows. Each is opened at the first successful attempt, because the disk with its keys may be mounted late.
final class FollowedSources: Sendable {
    private let names: [SourceName]
    private let device: DeviceContainer
    private let opened = Mutex<[SourceName: any DeviceSource]>([:])

    /// Creates the sources of `device` with these `names`, in the order of their checks.
    init(_ names: [SourceName], of device: DeviceContainer) {
        self.names = names
        self.device = device
    }

    private func source(_ name: SourceName) throws -> (any DeviceSource)? {
        try opened.withLock { opened in
            if opened[name] == nil { opened[name] = try device.source(name) }
            return opened[name]
        }
    }

    /// Returns the reasons why sources cannot be opened now.
    func troubles() -> [any Error] {
        names.compactMap { name in
            do {
                _ = try source(name)
                return nil
            } catch {
                return error
            }
        }
    }

    /// Checks each source, even if an earlier one fails. A source that cannot be opened fails its check.
    func check() async -> CheckResult {
        var results: [CheckResult] = []
        for name in names {
            do {
                if let source = try source(name) { results.append(await source.follow()) }
            } catch {
                results.append(CheckResult(failures: [error], hasResponse: false, pace: nil))
            }
        }
        return CheckResult(joining: results)
    }
}
