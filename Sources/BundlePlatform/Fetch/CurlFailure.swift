internal import BundleCore
internal import CCurl

/// Puts libcurl's codes into our words.
enum CurlFailure {
    static func error(_ code: CURLcode, explanation: String, at url: FetchURL, options: FetchOptions) -> FetchError {
        let reason = explanation.isEmpty ? name(code) : FetchURL.display(of: explanation)
        switch code {
        case CURLE_OPERATION_TIMEDOUT:
            // The only time-out that libcurl keeps for us; the others are TransferPace's.
            return .unreachable(url, reason: "no connection within \(options.connectTimeout)")
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CIPHER, CURLE_SSL_ISSUER_ERROR,
            CURLE_SSL_CERTPROBLEM, CURLE_SSL_ENGINE_INITFAILED:
            return .tlsFailed(url, reason: reason)
        case CURLE_SSL_CACERT_BADFILE:
            return .tlsFailed(url, reason: "the CA file \(options.caFile ?? "") has no certificate that can be read")
        case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_CONTENT_ENCODING:
            return .invalidAnswer(url, reason: reason)
        default:
            return .unreachable(url, reason: reason)
        }
    }

    static func name(_ code: CURLcode) -> String { String(cString: curl_easy_strerror(code)) }
}
