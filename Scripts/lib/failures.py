"""The failures of each command, for the reference and the manual pages. `fleet guard` and others also have statuses without a code, which
`clientctl help exit-statuses` names."""

import re

# Every command can end with these.
ALWAYS = ("internal", "permissionDenied", "resourcesExhausted", "usage", "configInvalid")
FEED = ("networkUnavailable", "httpStatus")
SIGNED = ("signatureInvalid", "keyUnknown", "expired", "rollbackAttempt", "manifestMalformed")
CONTENT = ("digestMismatch", "sizeMismatch", "archiveRejected")
WRITTEN = ("diskFull", "storeLocked")
PUBLIC = ("notPublic", "hookFailed")
STORE = (*WRITTEN, "storeDamaged")
EDIT = (*FEED, *SIGNED, *WRITTEN, *PUBLIC, "appMismatch")
OFFER = (*FEED, *SIGNED, *CONTENT, "unsuitableBundle", "versionMismatch", "versionBlocked", "incompatibleShell", "appMismatch")

FAILURES = {
    "completion": (),
    "version": (),
    "demo": ("diskFull",),
    "publish": (*EDIT, *CONTENT, "versionBlocked", "versionExists", "overBudget", "wrongMachine"),
    **{f"release {name}": EDIT for name in ("rollout", "target", "set", "retry", "pause", "resume", "recall", "withdraw")},
    "release promote": (*EDIT, "versionBlocked"),
    "release delta": (*EDIT, *CONTENT),
    "release proposals": (*FEED, *SIGNED),
    "release approve": (*EDIT, "proposalOutdated", "proposalForeign", "versionBlocked"),
    "channel list": (*FEED, *SIGNED),
    "channel log": (*FEED, *SIGNED),
    **{f"channel {name}": EDIT for name in ("set", "renew", "restore", "prune", "delete")},
    "keys generate": ("diskFull",),
    "keys show": (),
    "keys passwd": ("diskFull",),
    "trust show": ("manifestMalformed",),
    **{f"trust {name}": ("keyUnknown", "manifestMalformed", "diskFull") for name in ("init", "add-key", "remove-key", "rotate", "label", "renew", "sign")},
    "trust publish": (*EDIT, "versionExists"),
    "trust update": (*FEED, *SIGNED, "diskFull"),
    "inspect": (*FEED, "sizeMismatch", "archiveRejected", "manifestMalformed"),
    "verify": (*FEED, *SIGNED, *CONTENT, "storeDamaged"),
    "init": ("diskFull",),
    "feed serve": FEED,
    "feed check": (*FEED, *SIGNED, *CONTENT, "appMismatch"),
    "feed copy": (*EDIT, *CONTENT, "versionExists"),
    "feed export": (*FEED, *SIGNED, *CONTENT, "diskFull"),
    "feed offer": EDIT,
    "feed page-module": ("diskFull",),
    "feed prune": EDIT,
    "console": EDIT,
    "fleet list": FEED,
    "fleet show": FEED,
    "fleet forget": FEED,
    "fleet guard": EDIT,
    "fleet watch": (),
    "fleet insights": (*FEED, *SIGNED),
    "fleet page": (*FEED, *SIGNED, "diskFull"),
    "check": (*OFFER, "storeDamaged", "wrongKind"),
    "install": (*OFFER, *STORE, "versionExists", "wrongKind", "wrongMachine"),
    "activate": ("storeLocked", "storeDamaged", "healthFailed", "versionBlocked"),
    "serve": (*STORE, "healthFailed", "blankScreen", "wrongKind"),
    "run": ("programUnusable",),
    "kiosk": ("networkUnavailable",),
    "status": ("storeDamaged",),
    "doctor": (),
    "list": ("storeDamaged",),
    "rollback": STORE,
    "unblock": STORE,
    "repair": (*FEED, *SIGNED, *CONTENT, *STORE),
    "prune": STORE,
    "session login": (*STORE, "loginRequired"),
    "session logout": (*STORE, "loginRequired"),
    "screen lock": STORE,
    "screen unlock": STORE,
    "launch": ("wrongKind", *STORE, "versionBlocked", "incompatibleShell", "deviceLocked", "loginRequired"),
    "confirm": (*STORE, "versionMismatch", "healthFailed", "versionBlocked"),
    "fail": (*STORE, "versionMismatch"),
    "events": ("storeDamaged",),
    "report": (*FEED, *STORE),
}


def own_statuses(path, table):
    """Returns (status, text) of a command from the table of `clientctl help exit-statuses`, for those without a failure code."""
    found = []
    for status, text in table:
        for names, meaning in re.findall(r"([a-z ]+(?:, [a-z ]+)*): ([^:]*)(?:, (?=[a-z, ]+:)|$)", text):
            # "check" is not `feed check`, and "insights" is `fleet insights`.
            if any(path == name or name not in FAILURES and path.endswith(f" {name}") for name in names.split(", ")):
                found.append((int(status), meaning))
    return found
