# The commands whose output the reference shows. `Scripts/guide reference` runs this file in an empty folder. It shows the lines
# that start with `clientctl`. The other lines prepare the next command. $printed names the file with the last shown output.
export SOURCE_DATE_EPOCH=$began
hidden() { command clientctl "$@" >/dev/null 2>&1; }
content() { echo "<!doctype html><html lang=en><title>Kiosk</title><main>$1</main><script src=app.js></script><script>WebAppLocalServer.startupDidComplete();</script></html>" >dist/index.html; }
launch() { token=$(command clientctl launch --store store --json | sed -n 's/.*"token": "\(.*\)".*/\1/p'); }
# Loads the page of a version from `serve`, and confirms its start as the page does.
show_page() {
    until page=$(curl -s -H 'Accept: text/html' http://127.0.0.1:12000/) && echo "$page" | grep -q "<main>$1<"; do sleep 0.1; done
    curl -s -X POST -d '{}' -H 'Content-Type: application/json' -H 'Origin: http://127.0.0.1:12000' http://127.0.0.1:12000/__clientctl/v1/startupDidComplete \
        -o confirmed -H "X-Client-Token: $(echo "$page" | sed -n 's/.*name="clientctl-token" content="\([^"]*\)".*/\1/p')"
}
mkdir dist mnt new
seq 3000 | sed 's/.*/console.log(&);/' >dist/app.js

# Publishers: keys, trust, releases, channels.
clientctl keys generate --out release
clientctl keys show release.pub.pem
for name in channel next root1 root2 root3; do hidden keys generate --out $name; done
clientctl keys passwd channel.key.pem --no-passphrase
clientctl trust init --out trust.json --app-id com.example.kiosk --root-key root1.pub.pem --root-key root2.pub.pem --root-key root3.pub.pem --root-threshold 2 --release-key release.pub.pem --channel-key channel.pub.pem
hidden trust sign trust.json --key root1.key.pem
clientctl trust sign trust.json --key root2.key.pem
clientctl trust show trust.json
cp trust.json device.json
content 1.3.0
hidden publish dist --version 1.3.0 --feed feed --key release.key.pem --app-id com.example.kiosk --channel stable --channel-key channel.key.pem --create
clientctl trust publish trust.json --feed feed
content 1.4.0
hidden publish dist --version 1.4.0 --feed feed --key release.key.pem --app-id com.example.kiosk --channel stable --channel-key channel.key.pem --trust trust.json
for version in 1.3.0 1.4.0; do
    hidden install --manifest feed/releases/v$version/manifest.json --trust trust.json --store store
    launch
    hidden confirm --store store --version $version --token "$token"
done
content 1.5.0
clientctl publish dist --version 1.5.0 --feed feed --key release.key.pem --app-id com.example.kiosk --channel stable --channel-key channel.key.pem --rollout 10%
clientctl verify feed/manifest.json --trust trust.json
clientctl inspect feed/releases/v1.5.0/manifest.json
clientctl inspect feed/releases/v1.5.0/client-v1.5.0.tar.zst
clientctl feed copy feed mirror
clientctl release rollout 25% --version 1.5.0 --feed feed --channel stable --channel-key channel.key.pem
clientctl release target qa,eu --version 1.5.0 --feed feed --channel stable --channel-key channel.key.pem
clientctl release set --urgent --version 1.5.0 --feed feed --channel stable --channel-key channel.key.pem
clientctl release pause --version 1.5.0 --feed feed --channel stable --channel-key channel.key.pem
clientctl release resume --version 1.5.0 --feed feed --channel stable --channel-key channel.key.pem
clientctl release retry --version 1.5.0 --feed feed --channel stable --channel-key channel.key.pem
clientctl release promote --version 1.5.0 --channel stable --to longterm --create --feed feed --channel-key channel.key.pem
clientctl release delta --version 1.5.0 --delta-from 1.3.0 --feed feed --key release.key.pem
clientctl channel set --poll 5m --jitter 1m --feed feed --channel stable --channel-key channel.key.pem
clientctl channel list --feed feed --channel stable --trust trust.json
clientctl channel log --feed feed --channel stable --trust trust.json
clientctl channel renew --feed feed --channel stable --channel-key channel.key.pem
rm feed/channels/stable.json
clientctl channel restore --feed feed --channel stable --channel-key channel.key.pem
clientctl channel delete longterm --feed feed --yes
clientctl feed export --feed feed --to mnt/kit --trust trust.json
cd new
clientctl init --yes --app-id com.example.kiosk
cd ..

# Operators: a host, a roster and the counts of devices. The Prometheus has those of a release that works.
python3 - <<'PROMETHEUS' &
import http.server, json
class Counts(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        rows = [{"metric": {"version": "1.5.0", "fact": fact, **label}, "value": [0, str(count)]} for fact, label, count in (
            ("installed", {"route": "delta"}, 431), ("started", {}, 420), ("confirmed", {}, 418), ("failed", {"code": "healthFailed"}, 2))]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
    log_message = lambda *_: None
http.server.HTTPServer(("127.0.0.1", 9090), Counts).serve_forever()
PROMETHEUS
(umask 077; echo operator-secret >operator.token; echo device-secret >device.token)
clientctl feed serve feed --port 8080 --access-log access.log --reports reports.json --roster roster.db --roster-token-file operator.token &
host=$!
until grep -q http "$printed"; do sleep 0.1; done
hidden report --store store --report http://127.0.0.1:8080/report --channel http://127.0.0.1:8080/channels/stable.json
clientctl feed check http://127.0.0.1:8080 --trust trust.json
clientctl check --channel http://127.0.0.1:8080/channels/stable.json --trust trust.json --store store --device-id kiosk-17 --group qa
clientctl install --channel http://127.0.0.1:8080/channels/stable.json --trust trust.json --store store --device-id kiosk-17 --group qa --roster http://127.0.0.1:8080/roster --name "Lobby 3"
clientctl list --store store
clientctl fleet list --roster roster.db
clientctl fleet show "Lobby 3" --roster roster.db
clientctl fleet forget "Lobby 3" --roster roster.db

# A device.
clientctl launch --store store
token=$(sed -n 's/^  token  //p' "$printed")
clientctl fail --store store --version 1.5.0 --token $token --reason "white screen"
launch
clientctl confirm --store store --version 1.4.0 --token $token
clientctl status --store store
clientctl doctor --store store --channel feed/channels/stable.json --trust trust.json --device-id kiosk-17 --group qa
clientctl report --store store --report http://127.0.0.1:8080/report --channel http://127.0.0.1:8080/channels/stable.json
clientctl events --store store &
events=$printed
until [ -s "$events" ]; do sleep 0.1; done
clientctl rollback --store store --version 1.4.0
clientctl serve --store store --port 12000 &
serve=$!
until grep -q http "$printed"; do sleep 0.1; done
show_page 1.4.0
until grep -q 'v1.4.0 is shown' "$printed"; do sleep 0.1; done
clientctl unblock --store store --version 1.5.0
clientctl activate --store store &
sleep 0.5
show_page 1.5.0
until [ -s "$printed" ]; do sleep 0.1; done
kill $serve
echo damaged >>store/clients/v1.5.0/index.html
clientctl repair --store store --channel feed/channels/stable.json
clientctl verify --store store
clientctl prune --store store --keep 1
clientctl screen lock --store store
clientctl screen unlock --store store
clientctl session login --store store --token-file device.token --expires 12h
clientctl session logout --store store
until grep -q loggedOut "$events"; do sleep 0.1; done

# The end of a rollout.
clientctl fleet guard --version 1.5.0 --feed feed --channel stable --channel-key channel.key.pem --prometheus http://127.0.0.1:9090 --devices 2000 --bake 1s
clientctl fleet insights --version 1.5.0 --feed feed --channel stable --prometheus http://127.0.0.1:9090
clientctl fleet page --out page.html --feed feed --trust trust.json
clientctl release recall --version 1.5.0 --reason "white screen" --feed feed --channel stable --channel-key channel.key.pem
clientctl release withdraw --version 1.3.0 --feed feed --channel stable --channel-key channel.key.pem
clientctl channel prune --keep 1 --copies 2 --feed feed --channel stable --channel-key channel.key.pem
clientctl feed prune --feed feed --keep 1 --min-age 0s --dry-run
clientctl trust renew trust.json --out draft.json
clientctl trust add-key draft.json --role release --public-key next.pub.pem
clientctl trust remove-key draft.json --role release --public-key release.pub.pem
clientctl trust rotate draft.json --old channel.pub.pem --new next.pub.pem
for number in 1 2; do hidden trust sign draft.json --key root$number.key.pem; done
hidden trust publish draft.json --feed feed
clientctl trust update device.json --feed feed
# `feed offer` is for a feed without a channel. The host has ended, so that it does not report the other folder.
kill $host
mv feed old
for version in 1.4.0 1.5.0; do
    content $version
    hidden publish dist --version $version --feed feed --key release.key.pem --app-id com.example.kiosk
done
clientctl feed offer 1.4.0 --feed feed
