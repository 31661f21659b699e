import BundleTesting

/// Disks of a test's own.
enum PrivateMounts {
    /// What to put in front of a command that mounts: by root, or by anybody where user namespaces are allowed. Nil where neither is.
    static let command: [String]? = [
        ["unshare", "-m", "--propagation", "private"], ["unshare", "-Urm", "--propagation", "private"],
    ].first { command in
        (try? Program.run(
            command + ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"], environment: Clientctl.environment()
        ).status) == 0
    }
}
