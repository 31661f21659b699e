/// What an observer sees of an update under way.
package enum UpdateEvent: Sendable, Equatable {
    /// What the device has already is looked for.
    case planning
    /// The release is verified and its download starts or goes on.
    case downloading(bytes: Int, of: Int?)
    /// The archive is verified and unpacks.
    case unpacking(files: Int, of: Int?)
    /// The publisher packs.
    case packing(bytes: Int, of: Int)
    /// Everything is unpacked and goes to the disk.
    case settling
}
