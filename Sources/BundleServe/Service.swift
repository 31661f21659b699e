/// What the connections of one server share, and what answers their requests. Used on the event loop.
protocol Service: AnyObject, Sendable {
    var limits: ServerLimits { get }
    var fields: ResponseFields { get }
    /// Whether somebody wants to hear of every answer.
    var keepsLog: Bool { get }

    /// Answers a request, or starts to.
    func answer(_ request: Request, on connection: Connection<Self>)

    /// Answers a call whose body has come.
    func carryOut(_ call: PageCall, _ body: [UInt8], on connection: Connection<Self>)

    /// The fields of an answer that only this server knows about a file.
    func fields(before file: SiteFile) -> [UInt8]

    /// Hears of an answer.
    func note(_ entry: AccessEntry)
}

extension Service {
    var keepsLog: Bool { false }

    func note(_ entry: AccessEntry) {}
}
