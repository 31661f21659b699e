import CLinux

/// The process's character set, which C libraries read names in.
package enum CharacterSet {
    /// Chooses UTF-8 in place of the "C" that a Swift process starts in; false where the system has none.
    package static func useUTF8() -> Bool { clinux_use_utf8() == 0 }
}
