import BundleCore

/// How one step of a run ended.
enum DownloadEvent: Sendable {
    /// All bytes of the answer are here, the last of them in `rest`.
    case received(AssetLanding, rest: [UInt8], bytes: Int)
    /// The file is in its place, or was refused.
    case landed(AssetLanding, Result<AssetReceipt, any Error>, bytes: Int)
    /// No complete answer came; `part` can be gone on with.
    case failed(index: Int, any Error, part: AssetPart?, bytes: Int, reached: Int)
    /// It is time for the next attempt.
    case waited(index: Int)
}

/// The steps of a run that take time, each a task of its own.
struct DownloadSteps: Sendable {
    let jobs: [AssetJob]
    let earlier: [InterruptedDownload]
    let fetcher: any Fetcher
    let clock: any Clock<Duration>
    let places: AssetPlaces
    let line: DownloadLine

    /// Asks for one file and collects the answer.
    func receive(_ index: Int, after part: AssetPart?, isFirstAttempt: Bool) async -> DownloadEvent {
        let landing: AssetLanding
        do {
            let part = try await isFirstAttempt ? adopted(index) : part
            landing = try AssetLanding(index, jobs[index], in: places, after: part)
        } catch {
            return .failed(index: index, error, part: nil, bytes: 0, reached: 0)
        }
        var sink = ArrivingAsset(landing, on: line)
        do {
            _ = try await fetcher.fetch(try landing.request(), into: &sink)
            return .received(landing, rest: sink.rest, bytes: sink.bytes)
        } catch {
            return await abandon(landing, sink, because: error)
        }
    }

    private func adopted(_ index: Int) async throws -> AssetPart? {
        for attempt in earlier {
            guard let unfinished = try attempt.unfinished(key: jobs[index].key) else { continue }
            if let part = try await line.run({ try places.adopt(unfinished, for: jobs[index]) }) { return part }
        }
        return nil
    }

    private func abandon(
        _ landing: AssetLanding, _ sink: ArrivingAsset, because error: any Error
    ) async -> DownloadEvent {
        do {
            let part = try await line.run { try landing.abandon(sink.rest, because: error) }
            return .failed(index: landing.index, error, part: part, bytes: sink.bytes, reached: sink.reached)
        } catch {
            return .failed(index: landing.index, error, part: nil, bytes: sink.bytes, reached: sink.reached)
        }
    }

    /// Inspects and places a file.
    func land(_ landing: AssetLanding, _ rest: [UInt8], bytes: Int) async -> DownloadEvent {
        do {
            return .landed(landing, .success(try await line.run { try landing.finish(rest) }), bytes: bytes)
        } catch {
            return .landed(landing, .failure(error), bytes: bytes)
        }
    }

    /// Waits for the next attempt.
    func wait(_ index: Int, _ delay: Duration) async -> DownloadEvent {
        do {
            try await clock.sleep(for: delay)
            return .waited(index: index)
        } catch {
            return .failed(index: index, error, part: nil, bytes: 0, reached: 0)
        }
    }
}
