import BundleDisk
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// The sandbox of commands, tested with foreign code that runs inside them as it would after an exploit of the
/// unpacker.
@Suite(
    .ownThread,
    .enabled(if: Intruder.library != nil, "no clang: nothing can be put into the program"),
    .enabled(if: Intruder.kernelConfines, "this kernel has no Landlock"))
struct ConfinementTests {
    private let site: Site
    private let prey: String

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
        prey = try site.folder.write(bytes("as it was"), to: "prey")
        try site.folder.writeTree(["index.html": bytes("<!doctype html>seed\n")], to: "seed")
    }

    /// Runs a command with the intruder loaded. Returns the outcome and the attempts of the intruder, with the errors
    /// it got.
    private func intrude(_ arguments: [String], _ more: [String: String] = [:]) throws -> (Outcome, Set<String>) {
        let outcome = try Clientctl.run(arguments, environment: Intruder.environment(prey: prey, more))
        return (outcome, Intruder.reports(in: outcome.errors))
    }

    private static let denied: Set<String> = ["write 13", "make 13", "run 13"]

    @Test func `install writes only into the store`() throws {
        let (installed, reports) = try intrude(site.arguments("install"))
        #expect(installed.status == 0, "\(installed.errors)")
        #expect(reports == Self.denied)
        #expect(try contents(ofFile: prey) == bytes("as it was"))
        #expect(access(prey + ".made", F_OK) != 0)
        #expect(try site.installed("1.0.0") == Site.client("1.0.0"))
    }

    /// This shows that the intruder works, and that a machine without Landlock still gets updates.
    @Test func `install runs without Landlock, and status reports it`() throws {
        let (installed, reports) = try intrude(site.arguments("install"), ["INTRUDER_NO_LANDLOCK": "1"])
        #expect(installed.status == 0, "\(installed.errors)")
        #expect(reports == ["write 0", "make 0", "run 0"])
        #expect(try contents(ofFile: prey) == bytes("intruded"))
        let status = ["status", "--store", site.store]
        let (printed, _) = try intrude(status + ["--json"], ["INTRUDER_NO_LANDLOCK": "1"])
        let landlock = printed["landlock"]?.objectValue
        #expect(landlock?["version"] == .null)
        #expect(landlock?["reason"]?.stringValue?.contains("has no Landlock") == true)
        let (outcome, _) = try intrude(status, ["INTRUDER_NO_LANDLOCK": "1"])
        #expect(outcome.text.contains("! no sandbox: this kernel has no Landlock"))
        let usual = try Clientctl.run(status + ["--json"])
        #expect(usual["landlock"]?.objectValue?["version"]?.integerValue ?? 0 >= 2)
        #expect(try !Clientctl.run(status).text.contains("Landlock"))
    }

    @Test func `a failing command leaves no folder behind that it created`() throws {
        try site.install("http://127.0.0.1:1/manifest.json").failed(10, "networkUnavailable")
        #expect(access(site.store, F_OK) != 0)
        try Clientctl.run(["install", "--store", site.store, "--json"]).failed(64, "usage")
        #expect(access(site.store, F_OK) != 0)
    }

    @Test func `confines launch, repair and publish`() throws {
        try site.install().succeeded("installed")
        let (launched, reports) = try intrude([
            "launch", "--store", site.store, "--shell-version", "1.5.0", "--seed", site.folder.file("seed"), "--json",
        ])
        #expect(launched.status == 0, "\(launched.errors)")
        #expect(reports == Self.denied)
        try Clientctl.stock(["rm", "\(site.store)/clients/v1.0.0/app/shared.js"])
        let (repaired, repairReports) = try intrude([
            "repair", "--store", site.store, "--manifest", site.manifest, "--json",
        ])
        #expect(repaired.outcome == "repaired", "\(repaired.errors)")
        #expect(repairReports == Self.denied)
        let web = try site.folder.writeTree(Site.client("2.0.0"), to: "web")
        let publish = ["publish", web, "--version", "2.0.0", "--min-shell", "1.0.0", "--feed", site.feed, "--json"]
        let (published, publishReports) = try intrude(publish + ["--key", site.key])
        #expect(published.status == 0, "\(published.errors)")
        #expect(publishReports == Self.denied)
        #expect(try contents(ofFile: prey) == bytes("as it was"))
    }

    @Test func `confines publish but not its signing command`() throws {
        let note = site.folder.file("signed")
        let sign = "touch \(note) && openssl pkeyutl -sign -rawin -inkey \(site.key) -in /dev/stdin"
        let web = try site.folder.writeTree(Site.client("2.0.0"), to: "web")
        let publish = ["publish", web, "--version", "2.0.0", "--min-shell", "1.0.0", "--feed", site.feed, "--json"]
        // A signing command gets its message in the temporary folder, which `publish` may write to in that case.
        try site.folder.makeFolder("scratch")
        let (published, reports) = try intrude(
            publish + ["--sign-command", sign, "--sign-public-key", site.trust], ["TMPDIR": site.folder.file("scratch")]
        )
        #expect(published.status == 0, "\(published.errors)")
        #expect(reports.isSuperset(of: Self.denied))
        #expect(access(note, F_OK) == 0)
    }

    @Test func `confines every thread of serve, which still writes its metrics`() throws {
        try site.folder.makeFolder("metrics")
        let metrics = site.folder.file("metrics/client.prom")
        let run = try ServeRun([
            "--store", site.store, "--shell-version", "1.5.0", "--seed", site.folder.file("seed"), "--manifest",
            site.manifest, "--trust", site.trust, "--metrics-file", metrics, "--check-interval", "1s",
        ])
        try run.wait(for: "an update") { $0["clientctl_downloaded_bytes_total"] ?? 0 > 0 }
        let threads = try run.program.threadStatuses()
        #expect(threads.count > 2)
        for status in threads { #expect(status.contains("NoNewPrivs:\t1"), "\(status)") }
        let deadline = ContinuousClock.now + .seconds(60)
        while access(metrics, F_OK) != 0, ContinuousClock.now < deadline { poll(nil, 0, 10) }
        #expect(access(metrics, F_OK) == 0)
        try run.stop()
    }
}

/// A library that LD_PRELOAD loads into a program. Whenever the program creates a folder or renames a file, the
/// library tries to write a file, to create one and to run a program. It prints the results on standard error.
enum Intruder {
    static let kernelConfines = if case .offered = Confinement.support { true } else { false }

    private static let folder = try? TemporaryFolder()

    static let library: String? = {
        guard let folder, let source = try? folder.write(bytes(code), to: "intruder.c") else { return nil }
        let target = folder.file("intruder.so")
        let compiled = try? Program.run(
            ["clang", "-shared", "-fPIC", "-o", target, source], environment: Clientctl.environment())
        return compiled?.status == 0 ? target : nil
    }()

    static func environment(prey: String, _ more: [String: String]) -> [String: String] {
        ["LD_PRELOAD": library ?? "", "INTRUDER_PREY": prey].merging(more) { $1 }
    }

    static func reports(in errors: String) -> Set<String> {
        Set(errors.split(separator: "\n").compactMap { $0.hasPrefix("intruder: ") ? String($0.dropFirst(10)) : nil })
    }

    private static let code = """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <spawn.h>
        #include <stdarg.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/stat.h>
        #include <sys/wait.h>
        #include <unistd.h>

        static void tell(const char *what, int error) { dprintf(2, "intruder: %s %d\\n", what, error); }

        static void intrude(void) {
            int before = errno;
            const char *prey = getenv("INTRUDER_PREY");
            char made[4096];
            snprintf(made, sizeof made, "%s.made", prey);
            int file = open(prey, O_WRONLY | O_TRUNC | O_CLOEXEC);
            tell("write", file < 0 ? errno : write(file, "intruded", 8) < 0 ? errno : 0);
            if (file >= 0) close(file);
            file = open(made, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            tell("make", file < 0 ? errno : 0);
            if (file >= 0) close(file);
            char *words[] = {"true", 0};
            pid_t process;
            int error = posix_spawn(&process, "/bin/true", 0, 0, words, 0);
            tell("run", error);
            if (!error) waitpid(process, 0, 0);
            errno = before;
        }

        int mkdirat(int folder, const char *path, mode_t mode) {
            intrude();
            return ((int (*)(int, const char *, mode_t))dlsym(RTLD_NEXT, "mkdirat"))(folder, path, mode);
        }

        int renameat(int folder, const char *path, int other, const char *target) {
            intrude();
            return ((int (*)(int, const char *, int, const char *))dlsym(RTLD_NEXT, "renameat"))(folder, path, other, target);
        }

        long syscall(long number, ...) {
            if (number == 444 && getenv("INTRUDER_NO_LANDLOCK")) {
                errno = ENOSYS;
                return -1;
            }
            va_list list;
            va_start(list, number);
            long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long), d = va_arg(list, long);
            long e = va_arg(list, long), f = va_arg(list, long);
            va_end(list);
            return ((long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"))(number, a, b, c, d, e, f);
        }
        """
}
