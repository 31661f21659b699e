// Requests of the page to the shell. Exports: `request`, `refusal`, `parsed`, `cut`, `ignore`, and the identity of this page load.

// Copies of functions that a page may replace later.
var fetch = window.fetch.bind(window);
var setTimeout = window.setTimeout.bind(window);
var Promise = window.Promise;
var TypeError = window.TypeError;
var TextDecoder = window.TextDecoder;
var WebSocket = window.WebSocket;
var AbortController = window.AbortController;
var parse = JSON.parse;
var stringify = JSON.stringify;
var random = Math.random;
var now = Date.now;

var LONGEST_TEXT = 500;

var startedAt = now();
var meta = document.querySelector('meta[name="clientctl-token"]');
var token = (meta && meta.getAttribute('content')) || '';
// The last session that had ended when the server sent this page.
var ended = (meta && meta.getAttribute('data-ended')) || '';
// An absolute URL, so a <base> element of the page cannot send the token to another server.
var root = window.location.origin + '/__clientctl/v1/';

// The unique name of this page load.
var loadName = String(random()).slice(2) + '-' + startedAt;
// The number of the last report that the server orders by.
var reports = 0;

function ignore() {}

function parsed(text) {
  try {
    return parse(text);
  } catch (error) {
    return null;
  }
}

// Returns the text of a value, shortened, without unpaired surrogates, which strict JSON parsers reject.
function cut(value) {
  var text;
  try {
    text = String(value);
  } catch (error) {
    text = 'an error that has no text';
  }
  return text.slice(0, LONGEST_TEXT).replace(/[\uD800-\uDBFF][\uDC00-\uDFFF]|[\uD800-\uDFFF]/g, function (found) {
    return found.length === 2 ? found : '\uFFFD';
  });
}

// Returns the error of a refusal. If the launch of this page has ended, the page loads again.
function refusal(status, stated) {
  stated = stated || {};
  var error = new Error(stated.message || 'The server answered with status ' + status);
  error.code = stated.code || 'httpStatus';
  if (status === 403 && error.code === 'staleLaunch') {
    leaveStaleLaunch(stated.ended, stated.locked);
  }
  return error;
}

// Returns the error of a response that is not a success.
function refusalOf(status, text) {
  return refusal(status, (parsed(text) || {}).error);
}

// Calls a method by a request and returns a promise of its result. With `outlivesPage`, the request is sent even if the page unloads.
function request(method, body, outlivesPage) {
  return fetch(root + method, {
    method: 'POST',
    keepalive: !!outlivesPage,
    headers: { 'Content-Type': 'application/json', 'X-Client-Token': token },
    body: stringify(body || {}),
    cache: 'no-store',
    credentials: 'same-origin'
  }).then(function (response) {
    return response.text().then(function (text) {
      if (!response.ok) {
        throw refusalOf(response.status, text);
      }
      return parsed(text) || {};
    });
  });
}
