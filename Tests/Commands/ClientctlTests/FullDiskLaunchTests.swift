import BundleCore
import BundleValues
import BundleTestTraits
import BundleTesting
import Testing

/// A disk that becomes full between an installation and a launch, or during a trial.
@Suite(.ownThread) struct FullDiskLaunchTests {
    /// Stores the results in `results`.
    private static let script = """
        mount=$1 results=$2 seed=$3 program=$4 key=$5 feed=$6
        mount -t tmpfs -o size=4m,mode=700 tmpfs "$mount" || exit 90
        store=$mount/store
        install() {
            "$program" install --manifest "$feed/releases/v$1/manifest.json" --trust "$key" --store "$store" \\
                --shell-version 1.5.0 > /dev/null || exit 91
        }
        launch() {
            "$program" launch --store "$store" --shell-version 1.5.0 --seed "$seed" --json > "$results/$1" 2> "$results/$1.errors"
            echo $? >> "$results/$1.status"
        }
        fill() { head -c 8m /dev/zero > "$mount/filler" 2> /dev/null; echo x > "$mount/more" 2> /dev/null && cat /dev/zero >> "$mount/more" 2> /dev/null; }
        free() { rm -f "$mount/filler" "$mount/more"; }
        member() { sed -n 's/.*"'"$1"'": "\\([^"]*\\)".*/\\1/p'; }
        page() { curl -s --max-time 60 -H 'Accept: text/html' "$url" | grep -o 'client [0-9][0-9.]*' > "$results/$1"; }

        install 1.0.0
        launch first
        "$program" confirm --store "$store" --version 1.0.0 --token "$(member token < "$results/first")" > /dev/null || exit 92
        install 2.0.0
        fill
        launch full
        free
        launch freed
        "$program" confirm --store "$store" --version 2.0.0 --token "$(member token < "$results/freed")" > /dev/null || exit 93

        install 3.0.0
        serve() {
            rm -f "$results/url"
            "$program" serve --store "$store" --shell-version 1.5.0 --seed "$seed" --port 0 --startup-timeout "$1" \\
                > "$results/url" 2>> "$results/serve.errors" &
            server=$!
            for try in $(seq 600); do [ -s "$results/url" ] && break; sleep 0.1; done
            url=$(cat "$results/url")
        }
        token() { curl -s --max-time 60 -H 'Accept: text/html' "$url" | grep -o 'clientctl-token" content="[0-9a-f]*"' | cut -d'"' -f3; }
        show() {
            curl -s -o /dev/null -X POST -H "Origin: ${url%/}" -H "X-Client-Token: $1" -H 'Content-Type: application/json' \\
                -d '{"page":"a","number":'"$2"',"hidden":'"$3"'}' "${url}__clientctl/v1/visibility"
        }
        serve 200ms
        page trial
        token=$(token)
        # The startup timeout runs while the disk is full.
        show "$token" 1 true
        fill
        show "$token" 2 false
        for try in $(seq 600); do page fallen; grep -q 2.0.0 "$results/fallen" && break; sleep 0.1; done
        free
        for try in $(seq 600); do
            "$program" status --store "$store" --json > "$results/status"
            grep -q '"failed"' "$results/status" && break
            sleep 0.1
        done

        # Four times that for a page that reports nothing, because a busy machine needs it to fill the disk during a trial.
        kill "$server"
        wait "$server"
        serve "${LIMIT}s"
        install 4.0.0
        for try in $(seq 600); do page last; grep -q 4.0.0 "$results/last" && break; sleep 0.1; done
        token=$(token)
        fill
        curl -s -o /dev/null -w '%{http_code}' -X POST -H "Origin: ${url%/}" -H "X-Client-Token: $token" \\
            -H 'Content-Type: application/json' -d '{}' "${url}__clientctl/v1/startupDidComplete" > "$results/confirmed"
        sleep $((4 * LIMIT + 1))
        page kept
        free
        for try in $(seq 600); do
            "$program" status --store "$store" > "$results/end"
            grep -q 'v4.0.0  good' "$results/end" && break
            sleep 0.1
        done
        kill "$server"
        wait "$server"
        """

    @Test(.enabled(if: PrivateMounts.command != nil))
    func `launches the confirmed client on a full disk and records pending verdicts when space is free`() throws {
        let site = try Site()
        for version in ["1.0.0", "2.0.0", "3.0.0", "4.0.0"] {
            let page = Array("<title>client \(version)</title>".utf8)
            try site.publish(try site.folder.writeTree(["index.html": page], to: "page-\(version)"), as: version)
                .succeeded("published")
        }
        let seed = try site.folder.writeTree(["index.html": bytes("<p>seed")], to: "seed")
        let mount = try site.folder.makeFolder("mount")
        let results = try site.folder.makeFolder("results")
        let ending = try Program.run(
            try #require(PrivateMounts.command) + [
                "bash", "-c", Self.script, "bash", mount, results, seed, Clientctl.path, site.trust, site.feed,
            ], environment: Clientctl.environment(["LIMIT": "\(BusyMachine.seconds(1))"]))
        #expect(ending.status == 0, "\(ending.text) \(ending.errors)")
        func text(_ name: String) throws -> String {
            String(decoding: try contents(ofFile: "\(results)/\(name)"), as: UTF8.self)
        }
        let full = try text("full")
        #expect(full.contains("\"version\": \"1.0.0\"") && full.contains("\"trial\": false"), "\(full)")
        #expect(try text("full.status") == "0\n")
        #expect(try text("full.errors").contains("The disk is full"))
        let freed = try text("freed")
        #expect(freed.contains("\"version\": \"2.0.0\"") && freed.contains("\"trial\": true"), "\(freed)")
        #expect(try text("trial") == "client 3.0.0\n")
        let log = try text("serve.errors")
        #expect(try text("fallen") == "client 2.0.0\n", "\(log)")
        let status = try text("status")
        #expect(status.contains("\"cause\": \"notConfirmed\""), "\(status)")
        // A confirmation is valid at once, even if it could not be written.
        #expect(try text("confirmed") == "200")
        #expect(try text("kept") == "client 4.0.0\n", "\(log)")
        #expect(try text("end").contains("v4.0.0  good"), "\(log)")
    }
}
