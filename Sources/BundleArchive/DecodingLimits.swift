/// Bounds on what may come out of an archive while it is read, whatever its entries claim.
public struct DecodingLimits: Sendable {
    /// Decoded bytes for one byte of the archive, once more than `grace` bytes are out.
    public var ratio: Int
    /// Decoded bytes before the ratio counts.
    public var grace: Int
    /// When reading has to be over.
    public var deadline: ContinuousClock.Instant

    /// States bounds.
    public init(ratio: Int, grace: Int, deadline: ContinuousClock.Instant) {
        self.ratio = ratio
        self.grace = grace
        self.deadline = deadline
    }

    /// Refuses an archive of which `consumed` bytes have become `produced`.
    func check(consumed: Int, produced: Int) throws(ArchiveFailure) {
        if produced > grace, produced / ratio > consumed { throw .ratio(maximum: ratio) }
        if ContinuousClock.now > deadline { throw .tooSlow }
    }
}
