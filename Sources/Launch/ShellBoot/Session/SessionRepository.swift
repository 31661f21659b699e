/// What keeps the record of a device's sessions; the domain's contract, which each platform fulfils its own way.
public protocol SessionRepository: Sendable {
    /// What is remembered; `SessionRecord.open` where nothing ever was. Throws where it cannot be told.
    func record() async throws -> SessionRecord

    /// Changes what is remembered as a whole, and gives what it is then; durable when it returns.
    ///
    /// No change of anybody else gets lost. After a failure everything is what it was.
    @discardableResult
    func change(_ body: @Sendable (inout SessionRecord) -> Void) async throws -> SessionRecord
}
