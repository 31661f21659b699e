package import BundleValues

/// The rules for every `Fetcher`, applied to one of them. Code that uses a fetcher relies on them.
package struct FetcherContract: Sendable {
    /// An existing resource and the URL of a missing one.
    package struct Place: Sendable {
        let url: FetchURL
        let bytes: [UInt8]
        let missing: FetchURL

        /// The resource must have at least two bytes.
        package init(_ url: FetchURL, holding bytes: [UInt8], missing: FetchURL) {
            self.url = url
            self.bytes = bytes
            self.missing = missing
        }
    }

    private let fetcher: any Fetcher
    private let place: Place

    package init(_ fetcher: any Fetcher, at place: Place) {
        self.fetcher = fetcher
        self.place = place
    }

    /// Returns the violated rules.
    package func broken() async -> [String] {
        var broken: [String] = []
        if await !bringsAll() { broken.append("the head comes first, and once, and then every byte in order") }
        if await !holdsLimits() { broken.append("the limit is taken, and one byte more is tooLarge") }
        if await !tellsWhatIsMissing() {
            broken.append("what is not there is a FetchError, and shows the sink nothing")
        }
        if await !throwsErrorsOfSinks() { broken.append("what a sink throws is thrown, and ends the transfer") }
        if await !goesOn() { broken.append("a download goes on, or starts over and says so") }
        if await !startsOver() { broken.append("another resource is not gone on with") }
        if await !tellsWhatIsUnchanged() {
            broken.append("what is known already comes again, or 304 does and shows the sink nothing")
        }
        if await !keepsCallsApart() { broken.append("calls at once are kept apart") }
        if await !endsWhenCancelled() { broken.append("who is cancelled hears CancellationError") }
        return broken
    }

    /// The result of a fetch and the events of its sink.
    private struct Ending {
        var head: FetchHead?
        var error: (any Error)?
        var heads: [FetchHead] = []
        var bytes: [UInt8] = []
        var wasInOrder = true

        var fetchError: FetchError? { error as? FetchError }
    }

    private func fetch(
        _ url: FetchURL? = nil, maximum: Int? = nil, resume: FetchRequest.Resume? = nil,
        knownTag: String? = nil, throwing moment: ThrowingSink.Moment? = nil
    ) async -> Ending {
        var ending = Ending()
        var sink = ThrowingSink(moment)
        do {
            ending.head = try await fetcher.fetch(
                FetchRequest(
                    url: url ?? place.url, maximumBytes: maximum ?? place.bytes.count, resume: resume,
                    knownTag: knownTag),
                into: &sink)
        } catch {
            ending.error = error
        }
        (ending.heads, ending.bytes, ending.wasInOrder) = (sink.heads, sink.bytes, sink.wasInOrder)
        return ending
    }

    private func bringsAll() async -> Bool {
        let ending = await fetch()
        guard let head = ending.head else { return false }
        return ending.heads == [head] && ending.wasInOrder && ending.bytes == place.bytes && head.status == 200
            && head.rangeStart == nil && [nil, place.bytes.count].contains(head.contentLength)
            && head.effectiveURL == place.url
    }

    private func holdsLimits() async -> Bool {
        guard case .tooLarge? = await fetch(maximum: place.bytes.count - 1).fetchError else { return false }
        return await fetch(maximum: place.bytes.count).error == nil
    }

    private func tellsWhatIsMissing() async -> Bool {
        let ending = await fetch(place.missing)
        return ending.fetchError != nil && ending.heads.isEmpty && ending.bytes.isEmpty
    }

    private func throwsErrorsOfSinks() async -> Bool {
        let atHead = await fetch(throwing: .head)
        let atBody = await fetch(throwing: .body)
        return atHead.error is ThrowingSink.Thrown && atHead.bytes.isEmpty && atBody.error is ThrowingSink.Thrown
            && atBody.heads.count == 1
    }

    private func goesOn() async -> Bool {
        let offset = place.bytes.count / 2
        guard let validator = await fetch().head?.validator else { return true }
        let ending = await fetch(resume: FetchRequest.Resume(offset: offset, validator: validator))
        switch ending.head?.rangeStart {
        case nil: return ending.bytes == place.bytes
        case let start?:
            return start == offset && ending.head?.status == 206 && ending.bytes.elementsEqual(place.bytes[offset...])
        }
    }

    private func startsOver() async -> Bool {
        let other = FetchRequest.Resume(offset: 1, validator: "\"of another resource\"")
        let ending = await fetch(resume: other)
        return ending.head?.rangeStart == nil && ending.bytes == place.bytes
    }

    private func tellsWhatIsUnchanged() async -> Bool {
        let tag = await fetch().head?.entityTag ?? "\"none\""
        let same = await fetch(knownTag: tag)
        let isSame = same.head?.status == 304 ? same.heads.isEmpty && same.bytes.isEmpty : same.bytes == place.bytes
        let other = await fetch(knownTag: "\"of another time\"")
        return isSame && other.head?.status == 200 && other.bytes == place.bytes
    }

    private func keepsCallsApart() async -> Bool {
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<20 { group.addTask { await fetch().bytes == place.bytes } }
            return await group.allSatisfy { $0 }
        }
    }

    private func endsWhenCancelled() async -> Bool {
        let task = Task {
            // Waits for the cancellation.
            while !Task.isCancelled { await Task.yield() }
            return await fetch().error is CancellationError
        }
        task.cancel()
        return await task.value
    }
}

/// Records its events and throws at one of them.
private struct ThrowingSink: FetchSink {
    enum Moment { case head, body }

    struct Thrown: Error {}

    private let moment: Moment?
    private(set) var heads: [FetchHead] = []
    private(set) var bytes: [UInt8] = []
    private(set) var wasInOrder = true

    init(_ moment: Moment?) { self.moment = moment }

    mutating func begin(_ head: FetchHead) throws {
        heads.append(head)
        if moment == .head { throw Thrown() }
    }

    mutating func receive(_ chunk: UnsafeRawBufferPointer) throws {
        if heads.isEmpty { wasInOrder = false }
        bytes.append(contentsOf: chunk)
        if moment == .body { throw Thrown() }
    }
}
