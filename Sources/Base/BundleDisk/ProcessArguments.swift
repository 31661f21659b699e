import CLinux
import CLibrary

/// The arguments that this process was started with.
///
/// `CommandLine` searches for them beside the environment or in /proc. It finds none if a preloaded library changes the environment
/// before `main`, or if /proc is not mounted.
package enum ProcessArguments {
    /// The bytes of each argument after the name of the program.
    package static let bytes: [[UInt8]] = (1..<max(1, clinux_argument_count())).compactMap { index in
        clinux_argument(index).map { Array(UnsafeRawBufferPointer(start: $0, count: strlen($0))) }
    }
}
