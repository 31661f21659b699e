import BundleCore
import BundleValues

/// Records the head and bytes, or throws as configured.
struct RecordingSink: FetchSink {
    struct Refusal: Error, Equatable {}

    var heads: [FetchHead] = []
    var bytes: [UInt8] = []
    var refusesHead = false
    var capacity = Int.max
    var onBegin: @Sendable () -> Void = {}

    var text: String { String(decoding: bytes, as: UTF8.self) }

    mutating func begin(_ head: FetchHead) throws {
        heads.append(head)
        onBegin()
        if refusesHead { throw Refusal() }
    }

    mutating func receive(_ chunk: UnsafeRawBufferPointer) throws {
        bytes.append(contentsOf: chunk)
        if bytes.count > capacity { throw Refusal() }
    }
}

/// The result of a fetch with its sink.
struct Fetched {
    var sink = RecordingSink()
    var head: FetchHead?
    var error: (any Error)?

    var fetchError: FetchError? { error as? FetchError }

    init(
        _ fetcher: some Fetcher, _ url: FetchURL, maximumBytes: Int = 1 << 20, resume: FetchRequest.Resume? = nil,
        knownTag: String? = nil, sink given: sending RecordingSink = RecordingSink()
    ) async {
        var sink = given
        do {
            head = try await fetcher.fetch(
                FetchRequest(url: url, maximumBytes: maximumBytes, resume: resume, knownTag: knownTag), into: &sink)
        } catch {
            self.error = error
        }
        self.sink = sink
    }
}
