// Loading this page again, and leaving a session that has ended. Exports: `loadAgain`, `comeBack`, `leaveStaleLaunch`.

var STALE_PAUSE = 10000;
var STAY_PAUSE = 10000;
var LONGEST_REPORT = 2000;
var LONGEST_NAVIGATION = 10000;
var NAVIGATION_PAUSE = 250;
var FIRST_LEAVING_PAUSE = 1000;
var LONGEST_LEAVING_PAUSE = 30000;
var STALE_KEY = 'clientctl-stale-launch';

var isLoading = false;
var isOwnLoad = false;
// The time at which a navigation of the page itself began; 0 if there is none.
var leftAt = 0;

function loadAgain() {
  if (!isLoading) {
    isLoading = true;
    load();
  }
}

// A navigation of the page itself shows the new launch anyway, and replacing it would lose a click or a form. A download and an
// empty response end a navigation without another page.
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
    // With a fragment, even an empty one, `replace` would only scroll.
    if (window.location.href.indexOf('#') >= 0) {
      window.location.reload();
    } else {
      window.location.replace(window.location.href);
    }
  });
  isOwnLoad = false;
}

// Browsers refuse to change the address of a page that has changed it 200 times within 10 seconds: Firefox throws an error, Chromium
// ignores the call.
function attempt(navigate) {
  try {
    navigate();
  } catch (error) {
    // The caller tries again later.
  }
}

// A user can cancel the dialog of a beforeunload listener, and a script can cancel the navigation. The server refuses the report of
// a page whose launch has ended, so the page waits for the response, but not for long.
function loadOnceMore() {
  if (isLoading && !isOver) {
    var isReported = false;
    var loadAfterReport = function () {
      if (!isReported) {
        isReported = true;
        load();
      }
    };
    send('report', { kind: 'stays' }, true).then(loadAfterReport, loadAfterReport);
    setTimeout(loadAfterReport, LONGEST_REPORT);
  }
}

window.addEventListener('beforeunload', function () {
  if (!isLoading) {
    leftAt = now();
  }
});

// Leaving a session that has ended. From then on the page must not act for the next user: its listeners do not run, and it stores
// nothing. This script is the first one of the page, so its listeners are called first.

var isOver = false;
// Whether the device is locked. The page then leaves without the dialog of its beforeunload listeners, and keeps its data.
var isLocked = false;
// Whether the page returns to the start page, without that dialog.
var isReset = false;
// The channel to the other windows of the browser.
var tabs = null;

function stop(event) {
  if (isOver || ((isLocked || isReset) && event.type === 'beforeunload')) {
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
  // A change of the address would cancel the navigation to the next page.
  window.History.prototype.pushState = window.History.prototype.replaceState = ignore;
}

var leavingPause = FIRST_LEAVING_PAUSE;

// Goes to the page that clears the browser. Each attempt cancels the former one, so the pauses grow for a slow browser.
function goToLeavingPage() {
  setTimeout(goToLeavingPage, leavingPause);
  leavingPause = Math.min(1.5 * leavingPause, LONGEST_LEAVING_PAUSE);
  attempt(function () {
    window.location.replace(root + 'leave');
  });
}

// Hides this page at once, because a browser may need a moment for the next one.
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
    // The page has replaced these objects. The leaving page clears what it stores.
  }
  if (tabs) {
    tabs.postMessage({ ended: current });
  }
  // Closes a window that a page has opened. If the browser does not close it, it shows the leaving page.
  if (window.opener) {
    window.close();
  }
  goToLeavingPage();
}

// Replaces a page of another launch or of an ended session. `current` is the session that ended last, and `nowLocked` whether the
// device is locked.
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

function leaveStaleLaunch(current, nowLocked) {
  var isOther = typeof current === 'string' && current !== ended;
  var mustLeave = isOther || nowLocked === true;
  if (!isLoading && (mustLeave || mayLoadStale())) {
    comeBack(current, nowLocked);
  }
}

// Limits loads to one in ten seconds, across page loads. Without storage, the age of this page is the limit.
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

// The windows of a browser share one cookie, so all receive the files of the last loaded client. Older pages therefore follow it.
// Hidden pages have no event stream, so the windows notify each other.
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
