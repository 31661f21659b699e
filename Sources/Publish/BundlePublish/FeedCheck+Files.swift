import BundleFormats
import BundleValues

/// The files of releases, and the responses of all files.
extension FeedCheck {
    mutating func check(_ manifest: UnverifiedManifest, at url: FetchURL) async throws {
        if leavesOut(manifest.claims.version) { return }
        guard looksInto(manifest.claims.version),
            let archive = attempt(at: url, { try url.resolve(relative: manifest.claims.url) })
        else { return }
        guard url.mayLead(to: archive) else {
            return find(
                .malformed, at: url,
                message: "Version \(manifest.claims.version) leads to \(archive.display), which is less protected.")
        }
        guard try await content(archive, size: manifest.claims.size, counting: \.archives) else { return }
        let list = try archive.resolve(relative: DeltaListFormat.fileName)
        guard let bytes = try await document(list, maximumBytes: DeltaListFormat.maximumBytes, isNeeded: false),
            let deltas = attempt(
                at: list, { try DeltaListFormat.parse(DeltaListFormat.envelope(parsing: bytes)).deltas })
        else { return }
        for delta in deltas {
            guard let file = attempt(at: list, { try list.resolve(relative: delta.url) }) else { continue }
            _ = try await content(file, size: delta.size, counting: \.deltas)
        }
    }

    // MARK: Responses

    /// Returns the file at `url`; nil if it does not exist, which is a finding if the file is required.
    mutating func document(
        _ url: FetchURL, maximumBytes limit: Int, isNeeded: Bool, isAbsence: (FetchError) -> Bool = { $0.isAbsence }
    ) async throws -> [UInt8]? {
        var sink = CheckSink(keeps: true)
        do {
            let head = try await fetcher.fetch(FetchRequest(url: url, maximumBytes: limit), into: &sink)
            for code in FeedResponseRule.document(head) { find(code, at: url, message: code.words(of: head)) }
            return sink.bytes
        } catch let error as FetchError {
            if !isNeeded, isAbsence(error) { return nil }
            if case .tooLarge = error {
                find(.malformed, at: url, message: error.description)
            } else {
                find(Self.code(of: error), at: url, message: error.description)
            }
            return nil
        }
    }

    /// Requests a file and, if it exists, its last byte, as a device does after an interruption; returns false if it was requested before.
    private mutating func content(
        _ url: FetchURL, size: Int?, counting count: WritableKeyPath<CheckReport, Int>
    ) async throws -> Bool {
        guard seen.insert(url).inserted else { return false }
        report[keyPath: count] += 1
        report.bytes += size ?? 0
        guard let head = try await head(FetchRequest(url: url, maximumBytes: .max)) else { return true }
        for code in FeedResponseRule.content(head, size: size) {
            find(code, at: url, message: code.words(of: head, size: size))
        }
        guard !url.isFile, let size = head.contentLength, size > 1,
            let rest = FetchRequest.Resume(ofKnownContent: size - 1),
            let part = try await self.head(FetchRequest(url: url, maximumBytes: .max, resume: rest))
        else { return true }
        if part.rangeStart != size - 1 { find(.noRanges, at: url, message: FeedFinding.Code.noRanges.words(of: part)) }
        return true
    }

    /// Returns the head of a response; adds a finding and returns nil if there is none.
    private mutating func head(_ request: FetchRequest) async throws -> FetchHead? {
        var sink = CheckSink(keeps: false)
        do {
            return try await fetcher.fetch(request, into: &sink)
        } catch let seen as CheckSink.HeadSeen {
            return seen.head
        } catch let error as FetchError {
            find(Self.code(of: error), at: request.url, message: error.description)
            return nil
        }
    }

    private static func code(of error: FetchError) -> FeedFinding.Code {
        if error.isRefusal { return .refused }
        return UpdateFailure(error).code == .networkUnavailable ? .unreachable : .missing
    }
}
