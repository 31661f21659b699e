import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import Testing

/// A disk that the kernel made read-only, as it does after an error.
@Suite(.ownThread) struct ReadOnlyStoreTests {
    private static let script = """
        mount=$1 seed=$2 program=$3
        mount -t tmpfs -o size=2m,mode=700 tmpfs "$mount" || exit 90
        launch() { "$program" launch --store "$mount/store" --shell-version 1.0.0 --seed "$seed" --json; }
        launch > /dev/null || exit 91
        echo damaged > "$mount/store/ledger.json"
        mount -o remount,bind,ro "$mount" || exit 92
        launch
        """

    @Test(.enabled(if: PrivateMounts.command != nil))
    func `launch shows the seed with a damaged ledger on a read-only disk`() throws {
        let folder = try TemporaryFolder()
        let seed = try folder.writeTree(["index.html": bytes("<p>seed")], to: "seed")
        let mount = try folder.makeFolder("mount")
        let ending = try Program.run(
            try #require(PrivateMounts.command) + ["sh", "-c", Self.script, "sh", mount, seed, Clientctl.path],
            environment: Clientctl.environment())
        let outcome = Outcome(ending).succeeded()
        #expect(outcome.string("version") == "embedded")
        #expect(outcome["trial"] == .bool(false))
    }

    private static let withoutStore = """
        mount=$1 seed=$2 program=$3
        mount -t tmpfs -o size=2m,mode=700 tmpfs "$mount" || exit 90
        mount -o remount,bind,ro "$mount" || exit 92
        "$program" launch --store "$mount/below/store" --shell-version 1.0.0 --json >/dev/null 2>&1 && exit 93
        "$program" launch --store "$mount/below/store" --shell-version 1.0.0 --seed "$seed" --json
        """

    @Test(.enabled(if: PrivateMounts.command != nil))
    func `launch shows the seed in place when a read-only disk has no store`()
        throws
    {
        let folder = try TemporaryFolder()
        let seed = try folder.writeTree(["index.html": bytes("<p>seed")], to: "seed")
        let mount = try folder.makeFolder("mount")
        let ending = try Program.run(
            try #require(PrivateMounts.command) + ["sh", "-c", Self.withoutStore, "sh", mount, seed, Clientctl.path],
            environment: Clientctl.environment())
        let launched = Outcome(ending).succeeded()
        #expect(launched.string("version") == "embedded")
        #expect(launched["inPlace"] == .bool(true))
        #expect(launched.string("servingRoot") == seed)
        #expect(launched["trial"] == .bool(false))
        #expect(ending.errors.contains("nothing is stored"))
    }

    private static let laterWritable = """
        mount=$1 seed=$2 program=$3 work=$4
        mount -t tmpfs -o size=2m,mode=700 tmpfs "$mount" || exit 90
        mount -o remount,bind,ro "$mount" || exit 92
        set -- serve --store "$mount/below/store" --shell-version 1.0.0 --seed "$seed" --port 0
        "$program" "$@" --once 2>/dev/null && exit 93
        "$program" "$@" >"$work/out" 2>"$work/errors" &
        until grep -q http "$work/out"; do kill -0 $! || exit 94; sleep 0.05; done
        page() { curl -s -H 'Accept: text/html' "$(cat "$work/out")"; }
        page >"$work/page"
        curl -s "$(cat "$work/out")app.js" >"$work/script"
        mount -o remount,bind,rw "$mount" || exit 95
        until [ -d "$mount/below/store" ]; do kill -0 $! || exit 96; sleep 0.05; done
        # The seed's server may still respond until the shell has started.
        for try in $(seq 1200); do
            page >"$work/later" && ! cmp -s "$work/page" "$work/later" && break
            kill -0 $! || exit 97
            sleep 0.05
        done
        kill $! && wait $! && cat "$work/out"
        """

    @Test(.enabled(if: PrivateMounts.command != nil))
    func `serve shows the seed until the disk is writable, at the same address, and reports it once`()
        throws
    {
        let folder = try TemporaryFolder()
        let seed = try folder.writeTree(
            ["index.html": bytes("<title>seed</title>"), "app.js": bytes("seed()")], to: "seed")
        let (mount, work) = (try folder.makeFolder("mount"), try folder.makeFolder("work"))
        let ending = try Program.run(
            try #require(PrivateMounts.command)
                + ["sh", "-c", Self.laterWritable, "sh", mount, seed, Clientctl.path, work],
            environment: Clientctl.environment())
        func text(_ name: String) throws -> String {
            String(decoding: try contents(ofFile: "\(work)/\(name)"), as: UTF8.self)
        }
        let errors = try text("errors")
        #expect(ending.status == 0, "\(ending.errors) \(errors)")
        for page in [try text("page"), try text("later")] {
            #expect(page.contains("<title>seed</title>") && page.contains("WebAppLocalServer"), "\(page)")
        }
        #expect(try text("page") != text("later"), "the same launch")
        #expect(try text("script") == "seed()")
        #expect(ending.text.split(separator: "\n").count == 1, "\(ending.text)")
        #expect(errors.split(separator: "\n").count { $0.contains("Until then the seed is shown") } == 1, "\(errors)")
    }

    private static let withoutSeed = """
        mount=$1 program=$2 work=$3
        mount -t tmpfs -o size=2m,mode=700 tmpfs "$mount" || exit 90
        mount -o remount,bind,ro "$mount" || exit 92
        "$program" serve --store "$mount/store" --shell-version 1.0.0 --port 0 >"$work/out" 2>"$work/errors" &
        until grep -q "No client is shown until the store opens" "$work/errors"; do kill -0 $! || exit 94; sleep 0.05; done
        kill $! && wait $!
        """

    @Test(.enabled(if: PrivateMounts.command != nil))
    func `serve without a seed waits for a writable disk and ends on a signal`()
        throws
    {
        let folder = try TemporaryFolder()
        let (mount, work) = (try folder.makeFolder("mount"), try folder.makeFolder("work"))
        let ending = try Program.run(
            try #require(PrivateMounts.command) + ["sh", "-c", Self.withoutSeed, "sh", mount, Clientctl.path, work],
            environment: Clientctl.environment())
        #expect(ending.status == 0, "\(ending.errors)")
    }
}
