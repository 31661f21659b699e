// Reports whether the page is visible, its unload, and its heartbeats. Each page load has a name, and the shell follows the youngest
// load, because the unload of the former one may arrive late.

var lastHidden = null;
var hasLeft = false;
var isPrinting = false;

// Numbers the report, because two reports may arrive in either order. An unloaded page reports nothing more, because a later report
// might overtake its unload.
function reportVisibility() {
  var isHidden = document.visibilityState === 'hidden' || isPrinting;
  if (!hasLeft && lastHidden !== isHidden) {
    sendVisibility(isHidden);
  }
}

function sendVisibility(isHidden) {
  lastHidden = isHidden;
  reports += 1;
  var body = { hidden: isHidden, page: loadName, number: reports };
  if (isHidden) {
    sendLast('visibility', body);
  } else {
    send('visibility', body).then(ignore, ignore);
  }
}

// The shell regards a page whose socket has ended as closed.
function reportAgain() {
  if (!hasLeft && lastHidden !== null) {
    sendVisibility(lastHidden);
  }
}

// The unload is reported for a navigation. With the Navigation API, a window that is closed reports
// only that it is hidden.

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
  if (isLeaving) {
    hasLeft = true;
    lastHidden = null;
    reports += 1;
    sendLast('farewell', { page: loadName, number: reports, to: cut(destination) });
  } else if (lastHidden === false) {
    sendVisibility(true);
  }
  closeSocket();
});

// Heartbeats of a visible page. A dialog of the browser suspends them; a print dialog is announced before.

function setting(name) {
  var element = document.querySelector('meta[name="clientctl-' + name + '"]');
  return Number(element && element.getAttribute('content')) || 0;
}

var pause = setting('heartbeat');

if (pause > 0) {
  window.setInterval(function () {
    if (isSeen() && !isPrinting) {
      send('heartbeat', { page: loadName }).then(ignore, ignore);
    }
  }, pause);
}

// Return to the start page after a time without input. A page without any input is left alone, because a sign has no users. Input in a
// frame of another origin is seen only as an activation. `performance.now` does not jump when the device sets its clock.

var IDLE_CHECK = 1000;
var clock = window.performance.now.bind(window.performance);
var longestIdle = setting('idle-reset');
// The time of the last input; null before the first one.
var inputAt = null;

function noteInput(event) {
  if (event.isTrusted) {
    inputAt = clock();
  }
}

function isIdle() {
  return inputAt !== null && clock() - inputAt >= longestIdle && !isBusy && !isPrinting && !isOver;
}

// The dialog of a beforeunload listener would wait for a user who has gone.
function goToStart() {
  if (isIdle()) {
    inputAt = null;
    isReset = true;
    attempt(function () {
      window.location.replace('/');
    });
  }
}

if (longestIdle > 0) {
  ['pointerdown', 'pointermove', 'keydown', 'touchstart', 'touchmove', 'wheel'].forEach(function (name) {
    window.addEventListener(name, noteInput, { capture: true, passive: true });
  });
  window.setInterval(function () {
    noteInput({ isTrusted: Boolean(window.navigator.userActivation && window.navigator.userActivation.isActive) });
    if (isIdle()) {
      // Without an answer, the browser would show its own error page.
      send('heartbeat', { page: loadName }).then(goToStart, ignore);
    }
  }, IDLE_CHECK);
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

// A page that returns from the browser's cache may load again.
window.addEventListener('pageshow', function (event) {
  if (event.persisted) {
    isLoading = false;
    leftAt = 0;
    if (isOver) {
      goToLeavingPage();
    }
    isLeaving = !navigation;
    hasLeft = false;
    connect();
    reportVisibility();
  }
});
