package import BundleCore
import BundleValues
import CLibrary
import Synchronization

/// Collects the answers of the required endpoints of a client on trial, and decides on them.
package final class EndpointWatch: Sendable {
    private static let interval = Duration.milliseconds(200)

    private let limit: Duration
    private let answers = Mutex<[String: RequiredEndpoints.EndpointAnswer]>([:])

    /// Creates a watch in which the endpoints of a client have the time of `timeout` to answer.
    package init(_ timeout: StartupTimeout) { limit = timeout.duration }

    /// Forgets the answers to an earlier page.
    package func begin() { answers.withLock { $0 = [:] } }

    /// Records an answer. Returns whether the page has to ask again.
    package func note(_ answer: RequiredEndpoints.EndpointAnswer, of address: String) -> Bool {
        answers.withLock { answers in
            if answers.count < RequiredEndpoints.most || answers[address] != nil { answers[address] = answer }
        }
        if case .status(200..<400) = answer { return false }
        return true
    }

    /// Waits until `addresses` have answered or have failed. Without a network, it waits until there is one.
    package func check(_ addresses: [String]) async -> HealthResult {
        await check(addresses, waitsForNetwork: true) ?? .failed("the device was stopped")
    }

    /// Waits until `addresses` have answered or have failed. Returns nil if the device was stopped, or if it has no network after the
    /// timeout and the check does not wait for one.
    func check(_ addresses: [String], waitsForNetwork: Bool) async -> HealthResult? {
        let start = SuspendingClock().now
        while true {
            let isOver = SuspendingClock().now - start >= limit
            let answers = answers.withLock(\.self)
            switch RequiredEndpoints.decide(addresses, answers: answers, isOver: isOver, hasNetwork: Self.hasNetwork())
            {
            case .passed: return .passed
            case .failed(let reason): return .failed(reason)
            case .waiting: if isOver && !waitsForNetwork { return nil }
            }
            do { try await Task.sleep(for: Self.interval) } catch { return nil }
        }
    }

    /// Returns whether a network interface other than the loopback one is up.
    private static func hasNetwork() -> Bool {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return true }
        defer { freeifaddrs(first) }
        var next = first
        while let entry = next?.pointee {
            next = entry.ifa_next
            let flags = Int32(bitPattern: entry.ifa_flags)
            let family = entry.ifa_addr.map { Int32($0.pointee.sa_family) }
            if flags & Int32(IFF_UP) != 0, flags & Int32(IFF_RUNNING) != 0,
                flags & Int32(IFF_LOOPBACK) == 0, family == AF_INET || family == AF_INET6
            {
                return true
            }
        }
        return false
    }
}
