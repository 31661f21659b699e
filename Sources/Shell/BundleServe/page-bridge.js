// The surface of the Capacitor plugin CapacitorMeteorWebApp where no Capacitor is, carried over the local server.
(function () {
  'use strict';

  var existing = window.Capacitor && window.Capacitor.Plugins;
  if (existing && existing.CapacitorMeteorWebApp) {
    return;
  }

  // Taken now, so that a page that replaces them later does not break the bridge.
  var fetch = window.fetch.bind(window);
  var setTimeout = window.setTimeout.bind(window);
  var Promise = window.Promise;
  var TypeError = window.TypeError;
  var TextDecoder = window.TextDecoder;
  var AbortController = window.AbortController;
  var parse = JSON.parse;
  var stringify = JSON.stringify;
  var random = Math.random;
  var now = Date.now;

  var FIRST_DELAY = 500;
  var LONGEST_DELAY = 10000;
  var STALE_PAUSE = 10000;
  var STAY_PAUSE = 10000;
  var LONGEST_NAVIGATION = 10000;
  var NAVIGATION_PAUSE = 250;
  var STALE_KEY = 'clientctl-stale-launch';
  var KEPT_ERRORS = 8;
  var REPORTS = 5;
  var REPORT_CHARACTERS = 500;
  var NOTICES = 20;
  var NOTICE_DELAY = 100;
  var FIRST_LEAVING_PAUSE = 1000;
  var LONGEST_LEAVING_PAUSE = 30000;

  var startedAt = now();
  var meta = document.querySelector('meta[name="clientctl-token"]');
  var token = (meta && meta.getAttribute('content')) || '';
  // Names the session that had ended last when this page was sent.
  var ended = (meta && meta.getAttribute('data-ended')) || '';
  // Absolute: a <base> element of the page must not send the token elsewhere.
  var root = window.location.origin + '/__clientctl/v1/';

  // Names this load of the page.
  var loadName = String(random()).slice(2) + '-' + startedAt;

  function ignore() {}

  function parsed(text) {
    try {
      return parse(text);
    } catch (error) {
      return null;
    }
  }

  // Loading the page again

  var isLoading = false;
  var isOwnLoad = false;
  var leftAt = 0;

  function loadAgain() {
    if (!isLoading) {
      isLoading = true;
      load();
    }
  }

  // A navigation of the page's own leads to the new launch by itself. Replacing it would lose the click or the form that began it. A
  // download and an empty response end one without another page.
  function load() {
    if (isOver) {
      return;
    }
    if (now() - leftAt < LONGEST_NAVIGATION) {
      setTimeout(load, NAVIGATION_PAUSE);
      return;
    }
    setTimeout(loadOnceMore, STAY_PAUSE);
    isOwnLoad = true;
    attempt(function () {
      // With a fragment, even an empty one, replacing would only scroll.
      if (window.location.href.indexOf('#') >= 0) {
        window.location.reload();
      } else {
        window.location.replace(window.location.href);
      }
    });
    isOwnLoad = false;
  }

  // Browsers refuse to change the address of a page that has changed it 200 times within 10 seconds: Firefox by an exception, Chromium
  // silently. The caller tries again later.
  function attempt(navigate) {
    try {
      navigate();
    } catch (error) {
      // See above.
    }
  }

  // A person may cancel the dialog of a beforeunload listener, and a script the navigation.
  function loadOnceMore() {
    if (isLoading && !isOver) {
      send('report', { kind: 'stays' }).then(ignore, ignore);
      load();
    }
  }

  window.addEventListener('beforeunload', function () {
    if (!isLoading) {
      leftAt = now();
    }
  });

  // The other windows of the browser.
  var tabs = null;

  // Leaving a session that has ended. Nothing that this page does from then on is for the next user: its own listeners do not run, and
  // it stores nothing. This script is the first of the page, so its listeners are called first.

  var isOver = false;
  // A locked device does not ask: the page leaves without the dialog of its beforeunload listeners, and keeps what it stores.
  var isLocked = false;

  function stop(event) {
    if (isOver || (isLocked && event.type === 'beforeunload')) {
      event.stopImmediatePropagation();
    }
  }

  ['beforeunload', 'pageswap', 'pagehide', 'unload', 'visibilitychange', 'freeze'].forEach(function (name) {
    window.addEventListener(name, stop, true);
  });
  if (window.navigation && window.navigation.addEventListener) {
    window.navigation.addEventListener('navigate', stop);
  }

  function refuseToStore() {
    throw new Error('The session has ended.');
  }

  function stopStoring() {
    [
      ['Storage', 'setItem'], ['IDBFactory', 'open'], ['IDBObjectStore', 'add'], ['IDBObjectStore', 'put'],
      ['CacheStorage', 'open'], ['Cache', 'add'], ['Cache', 'addAll'], ['Cache', 'put']
    ].forEach(function (method) {
      if (window[method[0]]) {
        window[method[0]].prototype[method[1]] = refuseToStore;
      }
    });
    Object.defineProperty(document, 'cookie', { get: function () { return ''; }, set: ignore });
    // A change of the address would keep the browser from going elsewhere.
    window.History.prototype.pushState = window.History.prototype.replaceState = ignore;
  }

  var leavingPause = FIRST_LEAVING_PAUSE;

  // Goes to the page that clears the browser. Each attempt cancels the one before, so a slow browser gets more time for each.
  function goToLeavingPage() {
    setTimeout(goToLeavingPage, leavingPause);
    leavingPause = Math.min(1.5 * leavingPause, LONGEST_LEAVING_PAUSE);
    attempt(function () {
      window.location.replace(root + 'leave');
    });
  }

  // A browser may need a moment for the next page.
  function hide() {
    attempt(function () {
      document.documentElement.style.setProperty('display', 'none', 'important');
    });
  }

  function leave(current) {
    if (isOver) {
      return;
    }
    isOver = true;
    hide();
    try {
      window.name = '';
      stopStoring();
    } catch (error) {
      // A page may have replaced these: the next page clears what it stores.
    }
    if (tabs) {
      tabs.postMessage({ ended: current });
    }
    // A window that a page has opened goes with it. A browser that does not close it shows the next page in it.
    if (window.opener) {
      window.close();
    }
    goToLeavingPage();
  }

  // The page of another launch, or of a session that has ended since: the server names the session that ended last.
  function comeBack(current, nowLocked) {
    if (typeof current === 'string' && current !== ended) {
      leave(current);
    } else if (!isOver) {
      if (nowLocked === true) {
        isLocked = true;
        hide();
        isLoading = false;
      }
      loadAgain();
    }
  }

  // At most one load in ten seconds, over page loads. Without storage, the age of this page stands in for it.
  function mayLoadStale() {
    var time = now();
    try {
      var last = Number(window.sessionStorage.getItem(STALE_KEY)) || 0;
      if (time >= last && time - last < STALE_PAUSE) {
        return false;
      }
      window.sessionStorage.setItem(STALE_KEY, String(time));
      return true;
    } catch (error) {
      return time - startedAt >= STALE_PAUSE;
    }
  }

  // The error that a refusal carries. One that says that this page's launch is over makes the page load itself again.
  function refusal(status, text) {
    var answer = parsed(text);
    var stated = (answer && answer.error) || {};
    var error = new Error(stated.message || 'The server answered with status ' + status);
    error.code = stated.code || 'httpStatus';
    var isOther = typeof stated.ended === 'string' && stated.ended !== ended;
    var mustLeave = isOther || stated.locked === true;
    if (status === 403 && error.code === 'staleLaunch' && !isLoading && (mustLeave || mayLoadStale())) {
      comeBack(stated.ended, stated.locked);
    }
    return error;
  }

  function send(method, body, isFarewell) {
    return fetch(root + method, {
      method: 'POST',
      // What a page says on its way out arrives all the same.
      keepalive: !!isFarewell,
      headers: { 'Content-Type': 'application/json', 'X-Client-Token': token },
      body: stringify(body || {}),
      cache: 'no-store',
      credentials: 'same-origin'
    }).then(function (response) {
      return response.text().then(function (text) {
        if (!response.ok) {
          throw refusal(response.status, text);
        }
        return parsed(text) || {};
      });
    });
  }

  // Listeners

  var listeners = [];
  var keptUpdate = null;

  function deliver(name, event) {
    var reached = listeners.filter(function (listener) {
      return listener.name === name;
    });
    reached.forEach(function (listener) {
      try {
        listener.callback(event);
      } catch (error) {
        // An error of the page's own: uncaught, as from any event listener, and no harm to the others.
        setTimeout(function () {
          throw error;
        }, 0);
      }
    });
    return reached.length > 0;
  }

  function deliverKeptUpdate() {
    var event = keptUpdate;
    keptUpdate = null;
    if (event && !deliver('updateAvailable', event) && !keptUpdate) {
      keptUpdate = event;
    }
  }

  function addListener(name, callback) {
    var listener = { name: name, callback: callback };
    listeners.push(listener);
    if (name === 'updateAvailable' && keptUpdate) {
      Promise.resolve().then(deliverKeptUpdate);
    }
    if (name === 'error' && keptErrors.length > 0) {
      Promise.resolve().then(deliverKeptErrors);
    }
    return Promise.resolve({
      remove: function () {
        listeners = listeners.filter(function (other) {
          return other !== listener;
        });
        return Promise.resolve();
      }
    });
  }

  // Events, by the rules of server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html

  var heard = {};
  var keptErrors = [];

  // An error that comes before the page's own scripts have run waits for them. The host hears that it was heard only then: what this
  // page does not take is for the next one.
  function takeError(event, id) {
    // Said again where the host did not learn that it was heard.
    if (!id || !heard[id]) {
      if (!deliver('error', event)) {
        keepError(event, id);
        return;
      }
    }
    if (id) {
      heard[id] = true;
      send('heard', { id: Number(id) || 0 }, true).then(ignore, ignore);
    }
  }

  function keepError(event, id) {
    var isKept = keptErrors.some(function (kept) {
      return id && kept.id === id;
    });
    if (!isKept) {
      keptErrors = keptErrors.concat({ event: event, id: id }).slice(-KEPT_ERRORS);
    }
  }

  function deliverKeptErrors() {
    var errors = keptErrors;
    keptErrors = [];
    errors.forEach(function (kept) {
      takeError(kept.event, kept.id);
    });
  }

  function onEvent(name, text, id) {
    var event = parsed(text);
    if (name === 'reload') {
      comeBack(event && event.ended, event && event.locked);
      return;
    }
    if (!event) {
      return;
    }
    if (name === 'updateAvailable') {
      if (!deliver(name, event)) {
        keptUpdate = event;
      }
    } else if (name === 'error') {
      takeError(event, id);
    } else if (name === 'upToDate') {
      deliver(name, event);
    }
  }

  // A function that takes the stream's text piece by piece; an event that is not ended is dropped with it.
  function eventReader() {
    var line = '';
    var isAfterReturn = false;
    var name = '';
    var id = '';
    var data = [];

    function endLine() {
      var text = line;
      line = '';
      if (text === '') {
        var ended = data;
        var type = name;
        var number = id;
        data = [];
        name = '';
        id = '';
        if (ended.length > 0) {
          onEvent(type || 'message', ended.join('\n'), number);
        }
        return;
      }
      var colon = text.indexOf(':');
      var field = colon < 0 ? text : text.slice(0, colon);
      var value = colon < 0 ? '' : text.slice(colon + 1);
      if (value.charAt(0) === ' ') {
        value = value.slice(1);
      }
      if (field === 'event') {
        name = value;
      } else if (field === 'id') {
        id = value;
      } else if (field === 'data') {
        data.push(value);
      }
    }

    return function (piece) {
      var start = 0;
      for (var index = 0; index < piece.length; index += 1) {
        var code = piece.charCodeAt(index);
        if (code === 10 && isAfterReturn) {
          start = index + 1;
        } else if (code === 10 || code === 13) {
          line += piece.slice(start, index);
          start = index + 1;
          endLine();
        }
        isAfterReturn = code === 13;
      }
      line += piece.slice(start);
    };
  }

  var delay = FIRST_DELAY;

  function readAll(response) {
    var stream = response.body.getReader();
    var decoder = new TextDecoder('utf-8');
    var read = eventReader();
    function next() {
      return stream.read().then(function (result) {
        if (result.done) {
          return;
        }
        delay = FIRST_DELAY;
        read(decoder.decode(result.value, { stream: true }));
        return next();
      });
    }
    return next();
  }

  // A browser has six connections to a server, for all its windows: one that nobody sees gives its own back.

  var isListening = false;
  var isWaiting = false;
  var stopListening = ignore;

  function isSeen() {
    return document.visibilityState !== 'hidden';
  }

  function listen() {
    isWaiting = false;
    if (!isSeen()) {
      return;
    }
    isListening = true;
    var controller = AbortController && new AbortController();
    stopListening = function () {
      if (controller) {
        controller.abort();
      }
    };
    fetch(root + 'events?' + loadName, {
      headers: { 'X-Client-Token': token, Accept: 'text/event-stream' },
      cache: 'no-store',
      credentials: 'same-origin',
      signal: controller ? controller.signal : undefined
    }).then(function (response) {
      if (response.ok) {
        return readAll(response);
      }
      return response.text().then(function (text) {
        refusal(response.status, text);
      });
    }).then(ignore, ignore).then(function () {
      isListening = false;
      var wait = delay * (0.8 + 0.2 * random());
      delay = Math.min(2 * delay, LONGEST_DELAY);
      isWaiting = true;
      setTimeout(listen, wait);
    });
  }

  function listenWhileSeen() {
    if (!isSeen()) {
      delay = FIRST_DELAY;
      stopListening();
    } else if (!isListening && !isWaiting) {
      listen();
    }
  }

  // Errors that nobody caught

  var reportsLeft = REPORTS;

  // Half a surrogate pair is no text that a strict reader of JSON takes.
  function cut(value) {
    var text;
    try {
      text = String(value);
    } catch (error) {
      text = 'an error that has no text';
    }
    return text.slice(0, REPORT_CHARACTERS).replace(/[\uD800-\uDBFF][\uDC00-\uDFFF]|[\uD800-\uDFFF]/g, function (found) {
      return found.length === 2 ? found : '\uFFFD';
    });
  }

  function report(message, source, line, column) {
    if (reportsLeft === 0) {
      return;
    }
    reportsLeft -= 1;
    send('report', {
      message: cut(message), source: cut(source || ''), line: Number(line) || 0, column: Number(column) || 0
    }).then(ignore, ignore);
  }

  window.addEventListener('error', function (event) {
    report(event.message, event.filename, event.lineno, event.colno);
  });

  window.addEventListener('unhandledrejection', function (event) {
    var message = event.reason;
    try {
      message = (event.reason && event.reason.message) || event.reason;
    } catch (error) {
      message = 'a rejection that has no text';
    }
    report(message, '', 0, 0);
  });

  // What it could not load, and what its policy forbids; each once.

  var noticesLeft = NOTICES;
  var noticed = {};

  function notice(body) {
    var key = stringify([body.kind, body.directive, body.url, body.feature]);
    if (noticed[key] || noticesLeft === 0) {
      return;
    }
    noticed[key] = true;
    noticesLeft -= 1;
    send('report', body).then(ignore, ignore);
  }

  // A worker would outlive its client, and answer in place of the one that follows a rollback.
  if (window.navigator.serviceWorker) {
    window.navigator.serviceWorker.register = function (url) {
      notice({ kind: 'worker', url: cut(url) });
      return Promise.reject(new TypeError('The device accepts no service worker.'));
    };
  }

  document.addEventListener('securitypolicyviolation', function (event) {
    if (event.disposition === 'report') {
      return;
    }
    noticed[event.blockedURI] = true;
    notice({
      kind: 'blocked', directive: cut(event.effectiveDirective), url: cut(event.blockedURI),
      // A page cannot say who may frame it: that policy is the server's.
      isOwn: String(event.originalPolicy).indexOf('frame-ancestors') < 0,
      source: cut(event.sourceFile || ''), line: Number(event.lineNumber) || 0
    });
  }, true);

  // A browser tells a page what it may not use by this only. One that has none says it in its console.
  try {
    new window.ReportingObserver(function (refusals) {
      refusals.forEach(function (refusal) {
        var body = refusal.body;
        if (body && body.disposition === 'enforce') {
          notice({
            kind: 'refused', feature: cut(body.featureId), source: cut(body.sourceFile || ''),
            line: Number(body.lineNumber) || 0
          });
        }
      });
    }, { types: ['permissions-policy-violation'], buffered: true }).observe();
  } catch (error) {
    // The browser has none.
  }

  // Caught on its way down: where a resource is missing, the event does not rise.
  window.addEventListener('error', function (event) {
    var element = event.target;
    var url = element && element !== window && (element.currentSrc || element.src || element.href);
    if (typeof url !== 'string' || !element.localName) {
      return;
    }
    // What the policy forbids fails to load, too, and says so a moment later.
    setTimeout(function () {
      if (!noticed[url]) {
        notice({ kind: 'missing', element: cut(element.localName), url: cut(url) });
      }
    }, NOTICE_DELAY);
  }, true);

  // The tabs of a browser share a cookie, so all get the files of what was loaded last: older pages come along. Those that nobody
  // sees have no stream of events to tell them.

  if (window.BroadcastChannel && token) {
    tabs = new window.BroadcastChannel('clientctl-launch');
    tabs.onmessage = function (event) {
      var other = event.data || {};
      if (typeof other.ended === 'string' && other.token !== token) {
        comeBack(other.ended);
      }
    };
    tabs.postMessage({ token: token, ended: ended });
  }

  // Whether the page can be seen. Each load of it reports that first, under a name of its own: the host follows the youngest,
  // because the farewell of the one before may come late.

  var lastHidden = null;
  var hasLeft = false;
  var reports = 0;

  // Numbered, because two that are sent at once may arrive in either order. A farewell says that nobody sees the page, too: what
  // follows it on the way out might overtake it.
  function reportVisibility() {
    var isHidden = document.visibilityState === 'hidden' || isPrinting;
    if (!hasLeft && lastHidden !== isHidden) {
      lastHidden = isHidden;
      reports += 1;
      send('visibility', { hidden: isHidden, page: loadName, number: reports }, isHidden).then(ignore, ignore);
    }
  }

  // A farewell of whoever goes elsewhere; a window that is closed says none where the browser tells the two apart.

  var navigation = window.navigation && window.navigation.addEventListener ? window.navigation : null;
  var isLeaving = !navigation;
  var destination = '';

  if (navigation) {
    navigation.addEventListener('navigate', function (event) {
      var target = event.destination;
      if (target && !target.sameDocument && !event.downloadRequest) {
        isLeaving = true;
        if (!isOwnLoad) {
          leftAt = now();
        }
        destination = String(target.url).indexOf(window.location.origin + '/') === 0 ? '' : String(target.url);
      }
    });
    navigation.addEventListener('navigateerror', function () {
      isLeaving = false;
      leftAt = 0;
    });
  }

  window.addEventListener('pagehide', function () {
    lastHidden = null;
    if (isLeaving) {
      hasLeft = true;
      reports += 1;
      send('farewell', { page: loadName, number: reports, to: cut(destination) }, true).then(ignore, ignore);
    }
  });

  // Signs of life, of a page that is seen. A dialog of the browser holds them up; one to print says so before.

  var beat = document.querySelector('meta[name="clientctl-heartbeat"]');
  var pause = Number(beat && beat.getAttribute('content')) || 0;
  var isPrinting = false;

  if (pause > 0) {
    window.setInterval(function () {
      if (isSeen() && !isPrinting) {
        send('heartbeat', { page: loadName }).then(ignore, ignore);
      }
    }, pause);
  }

  function print(isOn) {
    return function () {
      isPrinting = isOn;
      reportVisibility();
    };
  }

  window.addEventListener('beforeprint', print(true));
  window.addEventListener('afterprint', print(false));

  document.addEventListener('visibilitychange', function () {
    reportVisibility();
    listenWhileSeen();
  });
  reportVisibility();

  // A page that comes back from the browser's cache may load itself again.
  window.addEventListener('pageshow', function (event) {
    if (event.persisted) {
      isLoading = false;
      leftAt = 0;
      if (isOver) {
        goToLeavingPage();
      }
      isLeaving = !navigation;
      hasLeft = false;
      reportVisibility();
    }
  });

  window.Capacitor = window.Capacitor || {};
  window.Capacitor.Plugins = window.Capacitor.Plugins || {};
  window.Capacitor.Plugins.CapacitorMeteorWebApp = {
    checkForUpdates: function () {
      return send('checkForUpdates');
    },
    startupDidComplete: function () {
      return send('startupDidComplete');
    },
    startupDidFail: function (options) {
      return send('startupDidFail', { reason: cut((options && options.reason) || '') });
    },
    busy: function (options) {
      reports += 1;
      return send('busy', { busy: !!(options && options.busy), page: loadName, number: reports });
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
    removeAllListeners: function () {
      listeners = [];
      return Promise.resolve();
    }
  };

  listen();
})();
