import CLinux

/// The character set in which C libraries read names.
package enum CharacterSet {
    /// Changes the character set of the process from "C", its initial one, to UTF-8. Returns false if the system does not
    /// have it.
    package static func useUTF8() -> Bool { clinux_use_utf8() == 0 }
}
