import BundleValues

internal import BundleCore

/// What to do with an answer, decided from its head alone.
enum ResponseVerdict: Equatable {
    case accept(FetchHead)
    case follow(FetchURL)
    /// Ends the fetch; the body is of no interest.
    case refuse(FetchError)
}

/// The one place that says which answers are acceptable.
struct ResponseRule {
    let request: FetchRequest
    let maximumRedirects: Int

    func verdict(on head: ResponseHead, at url: FetchURL, redirects: Int) -> ResponseVerdict {
        do throws(FetchError) {
            switch head.status {
            case 301, 302, 303, 307, 308:
                guard let location = head.value(of: "location") else { break }
                return .follow(try target(of: location, at: url, redirects: redirects))
            case 200:
                return .accept(try accept(head, at: url))
            case 206:
                return .accept(try acceptRest(head, at: url))
            default:
                break
            }
            return .refuse(.httpStatus(head.status, url, retryAfter: head.retryAfter))
        } catch {
            return .refuse(error)
        }
    }

    private func target(of location: String, at url: FetchURL, redirects: Int) throws(FetchError) -> FetchURL {
        let shown = FetchURL.display(of: location)
        guard redirects < maximumRedirects else {
            throw .redirectRefused(from: url, to: shown, reason: "it is one more than the \(maximumRedirects) allowed")
        }
        let target: FetchURL
        do {
            target = try url.resolve(relative: location)
        } catch {
            guard case .unsupportedURL(_, let reason) = error else { throw error }
            throw .redirectRefused(from: url, to: shown, reason: reason)
        }
        guard url.mayLead(to: target) else {
            throw .redirectRefused(from: url, to: shown, reason: "\(url.scheme) may not lead to \(target.scheme)")
        }
        return target
    }

    private func accept(_ head: ResponseHead, at url: FetchURL) throws(FetchError) -> FetchHead {
        let length = try head.contentLength()
        guard length ?? 0 <= request.maximumBytes else { throw .tooLarge(limit: request.maximumBytes, url) }
        return FetchHead(
            status: head.status, effectiveURL: url, contentLength: length, entityTag: head.value(of: "etag"),
            lastModified: head.value(of: "last-modified"), contentEncoding: head.contentEncoding,
            isDelimited: head.isDelimited)
    }

    private func acceptRest(_ head: ResponseHead, at url: FetchURL) throws(FetchError) -> FetchHead {
        guard let resume = request.resume else {
            throw .invalidResponse(url, reason: "it is a part that was not asked for")
        }
        let range = try head.rangeStart()
        guard range.start == resume.offset else {
            throw .invalidResponse(url, reason: "it starts at byte \(range.start) instead of \(resume.offset)")
        }
        let length = try head.contentLength()
        // The start is the offset that we hold already, but the length is the server's word and may be near Int.max.
        let end = resume.offset.addingReportingOverflow(length ?? 0)
        guard !end.overflow, max(end.partialValue, range.total ?? 0) <= request.maximumBytes else {
            throw .tooLarge(limit: request.maximumBytes, url)
        }
        let tag = head.value(of: "etag")
        // A server that ignores If-Range would append the rest of another version.
        if resume.validator.hasPrefix("\""), let tag, tag != resume.validator {
            throw .invalidResponse(url, reason: "it is a part of another version than the one begun")
        }
        return FetchHead(
            status: head.status, effectiveURL: url, contentLength: length, entityTag: tag,
            lastModified: head.value(of: "last-modified"), rangeStart: range.start,
            contentEncoding: head.contentEncoding, isDelimited: head.isDelimited)
    }
}
