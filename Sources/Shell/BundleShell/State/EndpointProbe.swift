package import BundleCore
import BundleTransport
package import BundleValues

/// Requests the required endpoints of a client whose page does not request them itself.
package struct EndpointProbe: Sendable {
    private static let pause = Duration.seconds(2)
    private static let longestRequest = Duration.seconds(8)

    private let fetcher: any Fetcher
    private let origin: FetchURL?

    /// Creates a probe that requests paths at `origin`. Without it, a path has to be a file of the client.
    package init(_ fetcher: any Fetcher, origin: FetchURL?) {
        self.fetcher = fetcher
        self.origin = origin
    }

    /// Requests `endpoints` until they have answered or have failed. Returns nil if the task was cancelled, or if the device has no
    /// network after `timeout` and the probe does not wait for one.
    package func check(
        _ endpoints: ReleaseEndpoints, within timeout: StartupTimeout, waitsForNetwork: Bool = true
    ) async -> HealthResult? {
        let watch = EndpointWatch(timeout)
        return await withTaskGroup(of: Void.self) { group in
            for address in endpoints.addresses {
                group.addTask {
                    while watch.note(await answer(of: address, endpoints), of: address) {
                        do { try await Task.sleep(for: Self.pause) } catch { return }
                    }
                }
            }
            let result = await watch.check(endpoints.addresses, waitsForNetwork: waitsForNetwork)
            group.cancelAll()
            return result
        }
    }

    private func answer(of address: String, _ endpoints: ReleaseEndpoints) async -> RequiredEndpoints.EndpointAnswer {
        do {
            let url: FetchURL
            if !address.hasPrefix("/") {
                url = try FetchURL(parsing: address)
            } else if let origin {
                url = try origin.resolve(relative: address)
            } else {
                return .status(try endpoints.hasFile(at: address) ? 200 : 404)
            }
            return try await within(Self.longestRequest, else: .timedOut(.connecting)) { [fetcher] in
                var sink = HeadSink()
                return .status(
                    try await fetcher.fetch(FetchRequest(url: url, maximumBytes: 1 << 40), into: &sink).status)
            }
        } catch let head as HeadSink.Received {
            return .status(head.status)
        } catch FetchError.httpStatus(let status, _, _) {
            return .status(status)
        } catch FetchError.unreachable(_, let reason) {
            return .unreachable(reason)
        } catch is TransportError {
            return .unreachable("it did not answer within \(DurationText(Self.longestRequest))")
        } catch {
            return .unreachable(UpdateFailure(error).message)
        }
    }
}

/// Ends a transfer after its head. The body does not matter.
private struct HeadSink: FetchSink {
    struct Received: Error {
        let status: Int
    }

    mutating func begin(_ head: FetchHead) throws { throw Received(status: head.status) }

    mutating func receive(_ bytes: UnsafeRawBufferPointer) {}
}
