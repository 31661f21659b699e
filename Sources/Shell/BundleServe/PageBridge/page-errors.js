// Reports of page errors: uncaught errors, blocked and missing resources, refused features and service workers.

var REPORTS = 5;
var NOTICES = 20;
var NOTICE_DELAY = 100;

var reportsLeft = REPORTS;

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

var noticesLeft = NOTICES;
var noticed = {};

// Reports each resource and feature once.
function notice(body) {
  var key = stringify([body.kind, body.directive, body.url, body.feature]);
  if (noticed[key] || noticesLeft === 0) {
    return;
  }
  noticed[key] = true;
  noticesLeft -= 1;
  send('report', body).then(ignore, ignore);
}

// A service worker would outlive its client and respond instead of the client that follows a rollback.
if (window.navigator.serviceWorker) {
  window.navigator.serviceWorker.register = function (url) {
    notice({ kind: 'worker', url: cut(url) });
    return Promise.reject(new TypeError('The device accepts no service worker.'));
  };
}

document.addEventListener('securitypolicyviolation', function (event) {
  if (event.disposition === 'report' || socketIsRefused(event.blockedURI)) {
    return;
  }
  noticed[event.blockedURI] = true;
  notice({
    kind: 'blocked', directive: cut(event.effectiveDirective), url: cut(event.blockedURI),
    // A policy in a page cannot restrict framing, so a policy with this directive is the server's.
    isOwn: String(event.originalPolicy).indexOf('frame-ancestors') < 0,
    source: cut(event.sourceFile || ''), line: Number(event.lineNumber) || 0
  });
}, true);

// Chromium reports refused features through this interface. Other browsers only log them in the console.
try {
  new window.ReportingObserver(function (refusals) {
    refusals.forEach(function (refused) {
      var body = refused.body;
      if (body && body.disposition === 'enforce') {
        notice({
          kind: 'refused', feature: cut(body.featureId), source: cut(body.sourceFile || ''),
          line: Number(body.lineNumber) || 0
        });
      }
    });
  }, { types: ['permissions-policy-violation'], buffered: true }).observe();
} catch (error) {
  // The browser does not support it.
}

// Listens in the capturing phase, because errors of missing resources do not bubble.
window.addEventListener('error', function (event) {
  var element = event.target;
  var url = element && element !== window && (element.currentSrc || element.src || element.href);
  if (typeof url !== 'string' || !element.localName) {
    return;
  }
  // A resource that a policy blocks fails to load as well; its violation event follows a moment later.
  setTimeout(function () {
    if (!noticed[url]) {
      notice({ kind: 'missing', element: cut(element.localName), url: cut(url) });
    }
  }, NOTICE_DELAY);
}, true);
