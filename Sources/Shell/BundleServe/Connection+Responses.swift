import CLibrary
import NIOCore

// Responses, their log entries, and the change to another protocol.
extension Connection {
    /// Writes a response, unless the client has closed the connection.
    func send(_ response: Response) {
        guard case .asking = phase else { return }
        if response.closes || unread != nil { keepsOpen = false }
        lastNavigation = response.navigation ?? lastNavigation
        entry?.status = response.status
        entry?.bytes = isHead ? 0 : response.length
        write(service.fields.start(response.status, closes: !keepsOpen, hasPolicy: response.hasPolicy))
        if isHead { return finish(.byteBuffer(response.fields)) }
        switch response.body {
        case .none: finish(.byteBuffer(response.fields))
        case .bytes(let bytes):
            write(response.fields)
            finish(.byteBuffer(bytes))
        case .file(let file, let part):
            write(response.fields)
            let region = FileRegion(fileHandle: file.handle, readerIndex: part.lowerBound, endIndex: part.upperBound)
            finish(.fileRegion(region), from: file)
        case .events(let events, let page):
            write(response.fields)
            stream(events, of: page)
        case .upgrade(let other, let request):
            write(response.fields)
            change(to: other, request)
        }
    }

    func write(_ bytes: ByteBuffer) {
        context?.write(wrapOutboundOut(.byteBuffer(bytes)), promise: nil)
    }

    /// Writes the last part of a response. `file` is its source.
    private func finish(_ last: IOData, from file: OpenFile? = nil) {
        guard let context else { return }
        if keepsOpen && file == nil {
            context.write(wrapOutboundOut(last), promise: nil)
            endEntry(isCut: false)
            return enter(.idle)
        }
        enter(.sending(file))
        if file != nil { cork(true) }
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenComplete { [self] result in
            if file != nil { cork(false) }
            guard case .sending = phase, case .success = result else { return }
            endEntry(isCut: false)
            if keepsOpen { enter(.idle) } else { leave() }
            resume()
        }
        context.writeAndFlush(wrapOutboundOut(last), promise: promise)
    }

    /// Has the kernel collect the parts of a file before it sends them (tcp(7), TCP_CORK), which doubles the
    /// throughput.
    private func cork(_ isOn: Bool) {
        try? context?.channel.syncOptions?.setOption(.tcpOption(.init(rawValue: TCP_CORK)), value: isOn ? 1 : 0)
    }

    /// Writes events one by one, each when the kernel has accepted the one before, and closes after the last.
    private func stream(_ events: AsyncStream<PageEvent>, of page: String) {
        guard let channel = context?.channel else { return }
        enter(.streaming)
        table.beginStream(self, of: page, on: channel)
        let connection = NIOLoopBound(self, eventLoop: channel.eventLoop)
        stream = Task(priority: .high) {
            for await event in events {
                do { try await channel.writeAndFlush(event.text) } catch { break }
            }
            channel.eventLoop.execute { connection.value.leaveStream() }
        }
    }

    private func leaveStream() {
        if case .streaming = phase { leave() }
    }

    // MARK: Other protocols

    /// Passes the connection to another protocol, which has accepted it.
    private func change(to other: any ProtocolSwitch, _ request: SwitchRequest) {
        guard let context else { return }
        enter(.changing)
        context.flush()
        endEntry(isCut: false)
        table.remove(self)
        let channel = context.channel
        if !other.isCounted { table.gate?.release(channel) }
        let rest = input
        input = ByteBuffer()
        context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
        other.take(request).assumeIsolated().whenComplete { result in
            guard case .success = result else { return channel.close(promise: nil) }
            // Bytes behind the request belong to the other protocol.
            if rest.readableBytes > 0 {
                channel.pipeline.syncOperations.fireChannelRead(NIOAny(rest))
                channel.pipeline.syncOperations.fireChannelReadComplete()
            }
            // Reading was paused during the change.
            channel.read()
        }
    }

    // MARK: Log

    func beginEntry(_ request: Request?) {
        guard service.log != nil else { return }
        entry = AccessEntry(request, from: context?.remoteAddress?.ipAddress)
    }

    func endEntry(isCut: Bool) {
        guard let entry else { return }
        self.entry = nil
        service.log?(entry.ended(isCut: isCut))
    }
}
