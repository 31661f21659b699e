import NIOCore

extension Connection<PageService> {
    /// Answers how the host is doing, in the text format of Prometheus. Nothing of it is secret, and who may ask is settled by then.
    func sendMetrics(_ request: Request) {
        guard let metrics = service.metrics else { return refuse(.notFound, request) }
        ask(metrics) { [self] result in
            guard case .success(let text) = result else { return refuse(.failed, request) }
            var head = service.fields.start(.ok, closes: !keepsOpen)
            head.writeString(
                """
                Content-Type: \(MediaType.metrics)\r
                Cache-Control: no-store\r
                Content-Length: \(text.utf8.count)\r\n\r\n
                """)
            if !request.isHead { head.writeString(text) }
            finish(.byteBuffer(head))
        }
    }
}
