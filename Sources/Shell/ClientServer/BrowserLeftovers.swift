import BundleValues
import CLibrary
import BundleShell

/// Locks and processes of an earlier browser, which keep the next one from starting.
package enum BrowserLeftovers {
    // MARK: Locks of the profile

    /// The lock of a browser's profile: a symbolic link whose target names the browser that holds it.
    enum ProfileLock: Equatable {
        case held
        /// The browser ran on another machine, or on this one under another name.
        case ofOtherHost(String)
        case ofEndedProcess(pid_t)

        /// Parses the target of a lock, which is `HOST-PID` in Chromium and `ADDRESS:+PID` in Firefox. A target without a process
        /// counts as held.
        init(target: String, host: String, isRunning: (pid_t) -> Bool) {
            self = .held
            if let separator = target.firstRange(of: ":+") {
                if let process = pid_t(target[separator.upperBound...]), !isRunning(process) {
                    self = .ofEndedProcess(process)
                }
            } else if let separator = target.lastIndex(of: "-"),
                let process = pid_t(target[target.index(after: separator)...])
            {
                let owner = String(target[..<separator])
                if owner != host {
                    self = .ofOtherHost(owner)
                } else if !isRunning(process) {
                    self = .ofEndedProcess(process)
                }
            }
        }

        /// The reason why the lock is stale; nil if it is held.
        var reason: String? {
            switch self {
            case .held: nil
            case .ofOtherHost(let host):
                "it belongs to the host \(UntrustedName.display(host)), and this host has another name"
            case .ofEndedProcess(let process): "its process \(process) has ended"
            }
        }
    }

    /// Removes stale locks from the profile in a browser's command. Returns a message for each.
    ///
    /// Chromium shows only a dialog if the lock has another host name, for example after a disk was copied or DHCP changed the name.
    package static func removeStaleLocks(of words: [String]) -> [String] {
        guard let profile = profile(in: words) else { return [] }
        let host = MachineIdentity.hostName
        for lock in ["SingletonLock", "lock"] {
            guard let target = target(of: "\(profile)/\(lock)"),
                let reason = ProfileLock(target: target, host: host, isRunning: { kill($0, 0) == 0 || errno == EPERM })
                    .reason
            else { continue }
            let all = lock == "lock" ? [lock] : [lock, "SingletonSocket", "SingletonCookie"]
            for file in all { unlink("\(profile)/\(file)") }
            return ["removed the lock of the browser's profile \(UntrustedName.display(profile)): \(reason)"]
        }
        return []
    }

    /// Returns the folder of the profile in a browser's command; nil if it names none.
    static func profile(in words: [String]) -> String? {
        for (index, word) in words.enumerated() {
            if word.hasPrefix("--user-data-dir=") { return String(word.dropFirst(16)) }
            if ["-profile", "--profile"].contains(word), index + 1 < words.count { return words[index + 1] }
        }
        return nil
    }

    private static func target(of path: String) -> String? {
        var bytes = [CChar](repeating: 0, count: 1024)
        let count = readlink(path, &bytes, bytes.count - 1)
        return count > 0 ? String(decoding: bytes[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self) : nil
    }

    // MARK: Orphaned browsers

    /// Ends the browsers that an earlier run with the folder `mark` left, for example after a SIGKILL, and returns their number. The caller
    /// holds a lock in the folder, so no other run uses it.
    ///
    /// Their descriptor 3, or 5, identifies them: it is that folder. Chromium overwrites its arguments and its environment, and
    /// Python does not start with a folder as its standard input.
    package static func endOrphans(of mark: String) -> Int {
        guard let folder = file(mark), let listing = opendir("/proc") else { return 0 }
        defer { closedir(listing) }
        var groups: Set<pid_t> = []
        while let entry = readdir(listing) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard let process = pid_t(name), process != getpid(),
                // A browser that takes pictures has a pipe in descriptors 3 and 4.
                ["3", "5"].contains(where: { file("/proc/\(process)/fd/\($0)") == folder })
            else { continue }
            let group = getpgid(process)
            if group > 1 && group != getpgrp() { groups.insert(group) }
        }
        for group in groups { kill(-group, SIGTERM) }
        for _ in 0..<30 where groups.contains(where: { kill(-$0, 0) == 0 }) { poll(nil, 0, 100) }
        for group in groups { kill(-group, SIGKILL) }
        return groups.count
    }

    private static func file(_ path: String) -> [UInt64]? {
        var facts = stat()
        return stat(path, &facts) == 0 ? [UInt64(facts.st_dev), UInt64(facts.st_ino)] : nil
    }
}
