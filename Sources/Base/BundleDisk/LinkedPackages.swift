import CLinux

/// The Debian packages of the C libraries inside this program. Empty if the program uses the system's libraries.
package enum LinkedPackages {
    /// The name and version of each package, such as `libssl-dev` and `3.0.19-1~deb12u2`.
    package static var versions: [(name: String, version: String)] {
        String(cString: clinux_packages_inside()).split(separator: "\n").map { line in
            let words = line.split(separator: " ")
            return (String(words.first ?? ""), String(words.last ?? ""))
        }
    }
}
