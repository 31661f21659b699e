/// Why a resource did not arrive.
public enum FetchError: Error, Equatable {
    /// No answer, or half of one: name not found, refused, no connection in time, connection cut.
    case unreachable(FetchURL, reason: String)
    /// The server answered with a status that brings no content; `retryAfter` is the wait it asked for.
    case httpStatus(Int, FetchURL, retryAfter: Duration?)
    /// The answer breaks HTTP or does not fit the request.
    case invalidResponse(FetchURL, reason: String)
    /// The resource has, or says it has, more than `limit` bytes.
    case tooLarge(limit: Int, FetchURL)
    /// No byte for too long, or too few on average.
    case tooSlow(FetchURL)
    /// The whole transfer took longer than its size allows.
    case timedOut(FetchURL)
    /// A redirect that must not be followed.
    case redirectRefused(from: FetchURL, to: String, reason: String)
    /// No trusted and encrypted connection.
    case tlsFailed(FetchURL, reason: String)
    /// There is no such file.
    case fileMissing(FetchURL)
    /// The file is there but may not be read.
    case filePermission(FetchURL)
    /// The text is not a URL that can be fetched; `text` is already fit for a message.
    case unsupportedURL(String, reason: String)
}

extension FetchError {
    /// The wait that the server asked for.
    public var retryAfter: Duration? {
        if case .httpStatus(_, _, let retryAfter) = self { retryAfter } else { nil }
    }
}

extension FetchError: CustomStringConvertible {
    /// What failed, for which URL, and what to do next; URLs appear without their query.
    public var description: String {
        switch self {
        case .unreachable(let url, let reason):
            "\(url.display) is not reachable: \(reason). Check the network and the address, then try again."
        case .httpStatus(let status, let url, let retryAfter):
            "\(url.display) answered \(status). " + Self.advice(status: status, retryAfter: retryAfter)
        case .invalidResponse(let url, let reason):
            "\(url.display) gave an invalid answer: \(reason). Check the server, and any proxy on the way."
        case .tooLarge(let limit, let url):
            "\(url.display) is larger than the \(limit) bytes allowed. Check that the address names the right file."
        case .tooSlow(let url):
            "\(url.display) sends too slowly. Try again later; what arrived is kept."
        case .timedOut(let url):
            "\(url.display) took too long in all. Try again later; what arrived is kept."
        case .redirectRefused(let from, let to, let reason):
            "\(from.display) redirects to \(to), which is refused: \(reason). Configure the final address instead."
        case .tlsFailed(let url, let reason):
            "\(url.display) has no trusted connection: \(reason). Check the certificate, the CA file and the clock."
        case .fileMissing(let url):
            "\(url.display) does not exist. Check the path."
        case .filePermission(let url):
            "\(url.display) may not be read. Check its permissions and those of its folders."
        case .unsupportedURL(let text, let reason):
            "\(text) cannot be fetched: \(reason). Give an http, https or file URL."
        }
    }

    private static func advice(status: Int, retryAfter: Duration?) -> String {
        if let retryAfter { return "Try again in \(retryAfter.components.seconds) s." }
        return switch status {
        case 401, 403: "Check the token and what it may read."
        case 404, 410: "Check the address."
        case 407: "Check the proxy settings."
        case 416: "Drop the partial download and start over."
        case 500...: "The server is at fault; try again later."
        default: "Check the address and the server."
        }
    }
}
