import BundleValues

/// Downloads an asset manifest (METEOR sections 1.9, 1.10 and 3.1).
struct ManifestFetch {
    /// The waits before retries. A device that wakes up can be faster than its network.
    private static let pauses = [Duration.milliseconds(100), .seconds(1)]

    private let fetcher: any Fetcher
    private let maximumBytes: Int

    init(_ fetcher: any Fetcher, maximumBytes: Int) {
        self.fetcher = fetcher
        self.maximumBytes = maximumBytes
    }

    func fetch(_ url: FetchURL) async throws -> [UInt8] { try await fetch(url, pauses: Self.pauses[...]) }

    private func fetch(_ url: FetchURL, pauses: ArraySlice<Duration>) async throws -> [UInt8] {
        do {
            return try await fetcher.fetchBytes(url, maximumBytes: maximumBytes)
        } catch let error as FetchError {
            guard case .unreachable = error, let pause = pauses.first else { throw Self.failure(error) }
            try await Task.sleep(for: pause)
            return try await fetch(url, pauses: pauses.dropFirst())
        }
    }

    private static func failure(_ error: FetchError) -> any Error {
        switch error {
        case .tooLarge(let limit, _): AssetManifestError.tooLarge(bytes: limit + 1, limit: limit)
        case .httpStatus(let status, _, _):
            UpdateFailure(
                .httpStatus, subject: error.failure.subject,
                "Non-success status code \(status) for asset manifest: \(error)", status: status)
        default:
            UpdateFailure(
                error.failure.code, subject: error.failure.subject, "Error downloading asset manifest: \(error)")
        }
    }
}
