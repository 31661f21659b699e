import BundleTesting

/// Disks that only one test sees.
enum PrivateMounts {
    /// The command to run before a command that mounts: for root, or for any user where user namespaces are allowed.
    /// Nil if neither works.
    static let command: [String]? = [
        ["unshare", "-m", "--propagation", "private"], ["unshare", "-Urm", "--propagation", "private"],
    ].first { command in
        (try? Program.run(
            command + ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"], environment: Clientctl.environment()
        ).status) == 0
    }
}
