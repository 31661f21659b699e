"""A bucket named `feeds` for tests and benchmarks, in moto, an object store in Python.

As a program it prints one line of JSON, `{"url", "id", "secret"}`, and serves while its parent runs:

  python3 Scripts/lib/bucket.py [--signed] [--public]

  --signed   refuse requests without a valid signature
  --public   allow reads without a signature"""

import json
import os
import pathlib
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAMES = {"url": "AWS_ENDPOINT_URL_S3", "id": "AWS_ACCESS_KEY_ID", "secret": "AWS_SECRET_ACCESS_KEY"}


class Bucket:
    """A running bucket: `url`, `id`, `secret`, and `settings`, the environment variables with them."""

    def __init__(self, *options):
        own = ROOT / ".build/moto/bin/python"
        python = os.environ.get("SWAP_CLIENTS_PYTHON") or (str(own) if own.exists() else sys.executable)
        self.child = subprocess.Popen([python, __file__, *options], stdout=subprocess.PIPE, text=True)
        line = self.child.stdout.readline()
        if not line:
            self.end()
            sys.exit(f"{python} cannot start a bucket: run Scripts/bootstrap --bucket")
        shown = json.loads(line)
        self.url, self.id, self.secret = shown["url"], shown["id"], shown["secret"]
        self.settings = {**{setting: shown[name] for name, setting in NAMES.items()}, "AWS_REGION": "us-east-1"}

    def end(self):
        self.child.kill()
        self.child.wait()


def moto():
    """Starts moto and returns its URL. Requests are serialized, because moto does not check a condition and write atomically."""
    from moto.moto_server import threaded_moto_server

    class OneAtATime(threaded_moto_server.DomainDispatcherApplication):
        turn = threading.Lock()

        def __call__(self, environ, start_response):
            with self.turn:
                return super().__call__(environ, start_response)

    threaded_moto_server.DomainDispatcherApplication = OneAtATime
    server = threaded_moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    return "http://%s:%d" % server.get_host_and_port()


def publisher(clients):
    """Returns a key with all rights."""
    iam = clients("iam")
    iam.create_user(UserName="publisher")
    statement = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName="publisher", PolicyName="all", PolicyDocument=policy)
    key = iam.create_access_key(UserName="publisher")["AccessKey"]
    return key["AccessKeyId"], key["SecretAccessKey"]


def make_public(s3):
    # Without the right to list, a missing file returns 403, which a CDN does not cache.
    rights = [("s3:GetObject", "/*"), ("s3:ListBucket", "")]
    statements = [
        {"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": [action], "Resource": [f"arn:aws:s3:::feeds{what}"]}
        for action, what in rights
    ]
    s3.put_bucket_policy(Bucket="feeds", Policy=json.dumps({"Version": "2012-10-17", "Statement": statements}))


def main(options):
    parent = os.getppid()
    import boto3

    shown = {"url": moto(), "id": "any", "secret": "any"}
    # moto logs every request.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

    def clients(service):
        return boto3.client(
            service, endpoint_url=shown["url"], region_name="us-east-1", aws_access_key_id=shown["id"],
            aws_secret_access_key=shown["secret"])

    s3 = clients("s3")
    s3.create_bucket(Bucket="feeds")
    if "--public" in options:
        make_public(s3)
    if "--signed" in options:
        from moto import settings

        shown["id"], shown["secret"] = publisher(clients)
        settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    print(json.dumps(shown), flush=True)
    while os.getppid() == parent:
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1:])
