import BundleValues

internal import BundleTransport
internal import CCurl
internal import CLibrary

/// Converts the codes of libcurl to errors.
enum CurlFailure {
    static func error(
        _ code: CURLcode, explanation: String, systemError: Int32 = 0, at url: FetchURL, options: FetchOptions
    ) -> FetchError {
        var reason = explanation.isEmpty ? name(code) : FetchURL.display(of: explanation)
        if let reason = certificateReason(code, reason, options) ?? tlsReason(code, reason, options) {
            return .tlsFailed(url, reason: reason)
        }
        let through = options.proxyHost(for: url).map { " through the proxy \($0)" } ?? ""
        reason += through
        switch code {
        case CURLE_OPERATION_TIMEDOUT:
            // The only timeout in libcurl; `TransferPace` has the others.
            return .unreachable(url, reason: "no connection within \(options.connectTimeout)\(through)")
        case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_CONTENT_ENCODING:
            return .invalidResponse(url, reason: reason)
        case CURLE_OUT_OF_MEMORY:
            // libcurl also returns this code for a header line that is too long.
            return .invalidResponse(url, reason: "a line of its header is too long, or this machine has no memory left")
        case CURLE_COULDNT_CONNECT:
            return connectError(reason, systemError, at: url)
        default:
            return .unreachable(url, reason: reason)
        }
    }

    /// Returns the reason why libcurl cannot be used on this machine.
    static func startError(at url: FetchURL) -> FetchError {
        guard let text = ccurl_load_error() else { return .exhausted(url, reason: "libcurl cannot be started") }
        let reason = UntrustedName.display(String(cString: text))
        let isLimit = [ENOMEM, EMFILE, ENFILE].contains { reason.hasSuffix(String(cString: strerror($0))) }
        return isLimit ? .exhausted(url, reason: reason) : .libraryMissing(url, reason: reason)
    }

    /// libcurl has the same code for a server that does not respond and a machine that cannot open a connection.
    private static func connectError(_ reason: String, _ code: Int32, at url: FetchURL) -> FetchError {
        let words = String(cString: strerror(code))
        return switch code {
        case EMFILE, ENFILE, ENOMEM, ENOBUFS: .exhausted(url, reason: words)
        case EPERM, EACCES: .unreachable(url, reason: "\(reason) (\(words): a firewall or a sandbox on this machine)")
        case 0: .unreachable(url, reason: reason)
        default: .unreachable(url, reason: "\(reason) (\(words))")
        }
    }

    /// Returns the error of a failed stream. `easy` is its handle.
    static func transportError(
        _ code: CURLcode, of easy: borrowing CurlEasy, at url: FetchURL, options: FetchOptions
    ) -> TransportError {
        let reason = easy.explanation.isEmpty ? name(code) : FetchURL.display(of: easy.explanation)
        if let reason = certificateReason(code, reason, options) { return .clientCertificate(reason) }
        if let reason = tlsReason(code, reason, options) { return .untrusted(reason) }
        switch code {
        case CURLE_OPERATION_TIMEDOUT: return .timedOut(.connecting)
        case CURLE_COULDNT_RESOLVE_HOST: return .unreachable("the name \(url.origin.host) has no address")
        case CURLE_COULDNT_CONNECT where easy.systemError != 0:
            return .unreachable(String(cString: strerror(easy.systemError)))
        default: return .unreachable(reason)
        }
    }

    /// Returns the reason of a failure of the client's certificate; nil for other failures.
    private static func certificateReason(_ code: CURLcode, _ reason: String, _ options: FetchOptions) -> String? {
        // A server that uses TLS 1.3 refuses a certificate after the handshake.
        if let reason = alertReason(reason, options) { return reason }
        guard code == CURLE_SSL_CERTPROBLEM, let certificate = options.clientCertificate else { return nil }
        return "the client certificate \(certificate.path) or its key cannot be used (\(reason))"
    }

    /// Returns the reason of another TLS failure; nil for other failures.
    private static func tlsReason(_ code: CURLcode, _ reason: String, _ options: FetchOptions) -> String? {
        // OpenSSL's reason for an answer that is not TLS.
        if code == CURLE_SSL_CONNECT_ERROR, reason.contains("wrong version number") {
            return "the server answers without TLS, as for an http address"
        }
        return switch code {
        case CURLE_SSL_CERTPROBLEM, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CIPHER,
            CURLE_SSL_ISSUER_ERROR,
            CURLE_SSL_ENGINE_INITFAILED:
            reason
        case CURLE_SSL_CACERT_BADFILE:
            options.caFile.map { "the CA file \($0) has no certificate that can be read" }
                ?? "this machine's CA certificates cannot be read (package ca-certificates; or give --ca-file)"
        default: nil
        }
    }

    /// Returns the error of a server that refuses a client by its certificate, which some servers report in an HTTP response;
    /// nil for other errors.
    static func certificateError(
        after error: FetchError, _ body: [UInt8], _ options: FetchOptions
    ) -> FetchError? {
        guard case .httpStatus(let status, let url, _) = error, url.scheme == .https else { return nil }
        return certificateReason(of: ErrorResponse(status: status, body: body), options)
            .map { .tlsFailed(url, reason: $0) }
    }

    /// Returns the error of a server that refuses a stream by its certificate in an HTTP response; nil for other responses.
    static func certificateError(of response: ErrorResponse?, _ options: FetchOptions) -> TransportError? {
        response.flatMap { certificateReason(of: $0, options) }.map { .clientCertificate($0) }
    }

    /// Returns the error of a stream that a TLS alert about the client's certificate has ended; nil for other reasons.
    static func alertError(_ explanation: String, _ options: FetchOptions) -> TransportError? {
        alertReason(explanation, options).map { .clientCertificate($0) }
    }

    private static func certificateReason(of response: ErrorResponse, _ options: FetchOptions) -> String? {
        guard ErrorResponse.certificateStatuses.contains(response.status) else { return nil }
        let text = String(decoding: response.body, as: UTF8.self)
        if response.status == 496 || text.contains("No required SSL certificate was sent") {
            return missingCertificate(options)
        }
        return response.status == 495 || text.contains("SSL certificate error") ? refusedCertificate(options) : nil
    }

    /// Returns the reason of a TLS alert about the client's certificate; nil for other reasons.
    private static func alertReason(_ reason: String, _ options: FetchOptions) -> String? {
        let text = reason.lowercased()
        if text.contains("certificate required") { return missingCertificate(options) }
        let alerts = [
            "alert bad certificate", "alert certificate expired", "alert certificate unknown", "alert unknown ca",
        ]
        return alerts.contains(where: text.contains) ? refusedCertificate(options) : nil
    }

    private static func missingCertificate(_ options: FetchOptions) -> String {
        options.clientCertificate.map { "the server requires a client certificate, and did not accept \($0.path)" }
            ?? "the server requires a client certificate (--client-cert and --client-key)"
    }

    private static func refusedCertificate(_ options: FetchOptions) -> String {
        guard let certificate = options.clientCertificate else { return missingCertificate(options) }
        let refusal = "the server refuses the client certificate \(certificate.path): it"
        let causes = "was revoked, or is of an authority that the server does not trust"
        guard let end = certificate.end else { return "\(refusal) has expired, \(causes)" }
        return end < .now ? "\(refusal) expired on \(end)" : "\(refusal) \(causes); it is valid until \(end)"
    }

    static func name(_ code: CURLcode) -> String { String(cString: curl_easy_strerror(code)) }
}
