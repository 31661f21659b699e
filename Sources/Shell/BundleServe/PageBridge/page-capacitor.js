// The native side of live-update plugins, for pages that were built for phones: CapacitorUpdater of Capgo, LiveUpdate of Capawesome,
// and CodePush for Cordova. Only the feed chooses a client, so calls that would choose one are rejected. Every page contains this
// script, so it is kept short: `it` is the response of `getStatus`.

var api = window.Capacitor.Plugins.CapacitorMeteorWebApp;

function fail(reason) {
  throw Object.assign(new Error(reason.message), reason);
}

function refuse() {
  fail({ code: 'UNIMPLEMENTED', message: 'The feed decides.' });
}

// The seed has no id.
function idOf(client) {
  return client && client.version !== 'embedded' ? client.version : null;
}

function bundle(client) {
  var id = idOf(client) || 'builtin';
  return client && {
    id, version: id, downloaded: client.installedAt || '', checksum: client.sha256 || '',
    status: { good: 'success', seed: 'success', staged: 'pending', trial: 'pending' }[client.state] || 'error'
  };
}

// Returns a call that checks, and passes the id of the client that is ready to `answer`, or null.
function check(answer) {
  return (it) => api.checkForUpdates().then((found) => (
    found.outcome === 'failed' ? fail(found) : answer(found.outcome === 'updateAvailable' ? found.version : null, it)));
}

// Native plugins load the page again even if there is no other bundle.
function restart() {
  return api.reload().then(ignore, (error) => error.code === 'noPendingVersion' ? loadAgain() : fail(error));
}

// Returns a call that is rejected unless it names the client that is ready.
function ifReady(answer) {
  return (it, named) => it.ready && (named.id || named.bundleId) === it.ready.version ? answer(it) : refuse();
}

var current = (it) => ({ bundle: bundle(it.running), native: it.shell, status: 'success' });
var next = (it) => bundle(it.ready);

var plugins = {
  CapacitorUpdater: {
    notifyAppReady: (it) => api.startupDidComplete().then(() => {
      deliver('appReady', current(it));
      return current(it);
    }),
    current,
    getNextBundle: next,
    list: (it) => ({ bundles: it.installed.map(bundle) }),
    getBuiltinVersion: (it) => ({ version: it.shell }),
    getFailedUpdate: (it) => it.lastFailure && { bundle: bundle(it.lastFailure) },
    triggerUpdateCheck: () => {
      api.checkForUpdates().then(ignore, ignore);
      return { status: 'queued', queued: true };
    },
    getLatest: check((id, it) => id ? { version: id } : { version: bundle(it.running).id, kind: 'up_to_date' }),
    reload: restart,
    set: ifReady(restart),
    next: ifReady(next),
    setMultiDelay: () => api.busy({ busy: true }),
    cancelDelay: () => api.busy({})
  },
  LiveUpdate: {
    ready: (it) => api.startupDidComplete().then(() => (
      { currentBundleId: idOf(it.running), previousBundleId: it.rolledBack ? it.lastFailure.version : null, rollback: it.rolledBack })),
    getCurrentBundle: (it) => ({ bundleId: idOf(it.running) }),
    getNextBundle: (it) => ({ bundleId: idOf(it.ready) }),
    reload: restart,
    sync: check((id) => ({ nextBundleId: id })),
    fetchLatestBundle: check((id) => ({ bundleId: id })),
    setNextBundle: ifReady(ignore)
  }
};
var rest = 'removeAllListeners download delete reset setBundleError setChannel unsetChannel downloadBundle deleteBundle'.split(' ');

// The events of the shell that have another name in a plugin. An error is a failed start if it names a version.
var names = {
  downloadComplete: 'updateAvailable', noNeedUpdate: 'upToDate', updateFailed: 'error'
};
var held = [];

function callNative(plugin, method, options, send) {
  var event = options.eventName;
  if (method === 'removeListener') {
    return held[options.callbackId].then((handle) => handle.remove());
  }
  return String(held.push(addListener(names[event] || event, (data) => {
    if (data.bundle || data.version) {
      send(data.bundle ? data : { bundle: bundle({ version: data.version, state: data.code || 'staged' }) });
    }
  })) - 1);
}

if (!window.androidBridge && !((window.webkit || {}).messageHandlers || {}).bridge) {
  Object.assign(window.Capacitor, {
    PluginHeaders: Object.keys(plugins).map((plugin) => ({
      name: plugin, methods: Object.keys(plugins[plugin]).concat(rest).map((name) => ({ name, rtype: 'promise' }))
        .concat({ name: 'addListener' }, { name: 'removeListener' })
    })),
    nativePromise: (plugin, method, options) => (
      api.getStatus().then((it) => (plugins[plugin][method] || api[method] || refuse)(it, options || {}))),
    nativeCallback: callNative
  });
}

window.SyncStatus = { UP_TO_DATE: 0, UPDATE_INSTALLED: 1, UPDATE_IGNORED: 2, ERROR: 3 };
window.InstallMode = { IMMEDIATE: 0, ON_NEXT_RESTART: 1, ON_NEXT_RESUME: 2 };
window.codePush = {
  notifyApplicationReady: (done, failed) => api.startupDidComplete().then(done, failed || ignore),
  sync: (done, options) => {
    done = done || ignore;
    api.startupDidComplete().then(check((id) => {
      done(id ? 1 : 0);
      return id && (options || {}).installMode === 0 ? restart() : null;
    })).catch(() => done(3));
  }
};
