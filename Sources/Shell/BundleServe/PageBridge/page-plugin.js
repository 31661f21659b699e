// The interface of the Capacitor plugin CapacitorMeteorWebApp, for pages outside Capacitor.

var ENDPOINT_DELAY = 2000;
var ENDPOINT_LIMIT = 8000;

// Requests an address that the release requires, and reports the answer until the shell is satisfied. The page requests it, so its
// content security policy and the CORS rules of the server apply.
function ask(endpoint) {
  var controller = AbortController && new AbortController();
  if (controller) {
    setTimeout(function () {
      controller.abort();
    }, ENDPOINT_LIMIT);
  }
  fetch(endpoint, { cache: 'no-store', signal: controller ? controller.signal : undefined }).then(function (response) {
    return { endpoint: endpoint, status: response.status };
  }, function (error) {
    return { endpoint: endpoint, error: cut(error) };
  }).then(function (answer) {
    return send('endpoint', answer);
  }).then(function (order) {
    if (order.again) {
      setTimeout(function () {
        ask(endpoint);
      }, ENDPOINT_DELAY);
    }
  }, ignore);
}

// Whether the page has asked not to be replaced.
var isBusy = false;

window.Capacitor = window.Capacitor || {};
window.Capacitor.Plugins = window.Capacitor.Plugins || {};
window.Capacitor.Plugins.CapacitorMeteorWebApp = {
  checkForUpdates: function () {
    return send('checkForUpdates');
  },
  startupDidComplete: confirmStart,
  startupDidFail: function (options) {
    return send('startupDidFail', { reason: cut((options && options.reason) || '') });
  },
  busy: function (options) {
    reports += 1;
    isBusy = !!(options && options.busy);
    return send('busy', { busy: isBusy, page: loadName, number: reports });
  },
  getStatus: function () {
    return send('getStatus');
  },
  getCurrentVersion: function () {
    return send('getCurrentVersion');
  },
  isUpdateAvailable: function () {
    return send('isUpdateAvailable');
  },
  reload: function () {
    return send('reload').then(function (answer) {
      loadAgain();
      return answer;
    });
  },
  addListener: addListener,
  removeAllListeners: removeAllListeners
};

listen();
