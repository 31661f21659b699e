// Updates of a Capacitor app from a swap-clients feed on any static host, written by `clientctl feed page-module`.
// It verifies the feed with Ed25519 before it believes it, and chooses as every device does. Guide/guides/phones.md explains it.

/** The trusted keys: { expires, appId, roles: { release, channel, guard: { threshold, keys: { id: base64 SPKI } } } }. */
export const TRUST = null;

const [BUILT, ALL, LONGEST_STEP] = [1795305600, 1000, 2 ** 20];
const text = new TextEncoder();

class Refusal extends Error {}
const refuse = (why) => { throw new Refusal(why); };

const subtle = () => globalThis.crypto?.subtle ?? refuse('This web view has no WebCrypto: open the app over https or its own scheme.');
const decode = (base64) => Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0));
const digest = async (bytes) => new Uint8Array(await subtle().digest('SHA-256', bytes));
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
const seconds = (time) => Date.parse(time) / 1000;

function compareParts(left, right) {
  const numeric = [left, right].map((part) => /^[0-9]+$/.test(part));
  if (numeric[0] !== numeric[1]) return numeric[0] ? -1 : 1;
  if (numeric[0] && left.length !== right.length) return left.length - right.length;
  return left < right ? -1 : left > right ? 1 : 0;
}

function compareLists(left, right) {
  for (let index = 0; index < Math.min(left.length, right.length); index++) {
    const order = compareParts(left[index], right[index]);
    if (order !== 0) return order;
  }
  return left.length - right.length;
}

export function compare(left, right) {
  const split = (version) => {
    const hyphen = version.indexOf('-');
    return hyphen < 0 ? [version.split('.'), []] : [version.slice(0, hyphen).split('.'), version.slice(hyphen + 1).split('.')];
  };
  const [[core, pre], [otherCore, otherPre]] = [split(left), split(right)];
  const order = compareLists(core, otherCore);
  if (order !== 0 || pre.length * otherPre.length > 0) return order || compareLists(pre, otherPre);
  return otherPre.length - pre.length;
}

const number = '(?:0|[1-9][0-9]*)';
const part = `(?:${number}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)`;
const SEMANTIC = new RegExp(`^${number}\\.${number}\\.${number}(?:-${part}(?:\\.${part})*)?$`);
const isVersion = (value) => typeof value === 'string' && value.length <= 128 && SEMANTIC.test(value);

/** Returns the version of an app, written with one to four numbers, of which the fourth does not count; null for any other text. */
export function shellVersion(value) {
  if (isVersion(value)) return value;
  const parts = String(value).split('+')[0].split('.');
  if (parts.length > 4 || !parts.every((one) => /^[0-9]{1,9}$/.test(one))) return null;
  return [...parts.slice(0, 3).map(Number), 0, 0].slice(0, 3).join('.');
}

async function isSigned(bytes, signature, spki) {
  let key;
  try {
    key = await subtle().importKey('spki', decode(spki), { name: 'Ed25519' }, false, ['verify']);
  } catch {
    refuse('This web view cannot verify Ed25519 signatures, so no update is installed. Serve the feed with clientctl feed serve --phones.');
  }
  return subtle().verify({ name: 'Ed25519' }, key, signature, bytes);
}

/** Throws unless as many keys of the role signed as it needs. */
async function requireSigned(bytes, signatures, role, what) {
  const signers = new Set();
  for (const { id, sig } of signatures.slice(0, 64)) {
    const claimed = Object.entries(role?.keys ?? {}).filter(([known]) => id == null || known === id);
    let good = null;
    for (const [known, spki] of claimed) good ??= (await isSigned(bytes, sig, spki)) ? known : null;
    if (good !== null) signers.add(good); else if (id != null && claimed.length > 0) refuse(`A signature of the ${what} does not match.`);
  }
  if (!role || signers.size < role.threshold) refuse(`The ${what} does not have the signatures that it needs.`);
}

async function opened(document, type, role, what) {
  const envelope = JSON.parse(document);
  if (envelope.payloadType !== `application/vnd.swap-clients.${type}.v1+json`) refuse(`This is not a ${what}.`);
  const payload = decode(envelope.payload);
  const head = text.encode(`DSSEv1 ${envelope.payloadType.length} ${envelope.payloadType} ${payload.length} `);
  const message = new Uint8Array([...head, ...payload]);
  await requireSigned(message, envelope.signatures.map((one) => ({ id: one.keyid, sig: decode(one.sig) })), role, what);
  return { value: JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload)), sha256: hex(await digest(payload)) };
}

function statement(manifest) {
  const names = ['appId', 'version', 'sha256', 'size', 'contentSha256', 'installedSize', 'fileCount', 'minShellVersion', 'maxShellVersion', 'createdAt'];
  const lines = names.map((name) => [name, manifest[name] ?? '']).concat((manifest.requiredEndpoints ?? []).map((one) => ['requiredEndpoint', one]));
  return text.encode('swap-clients-manifest-v1\n' + lines.map(([name, value]) => `${name}=${value}\n`).join(''));
}

async function isTrustedRelease(release, role) {
  const signatures = [{ sig: decode(release.signature) }, ...(release.signatures ?? []).map((one) => ({ id: one.keyid, sig: decode(one.sig) }))];
  try {
    return (await requireSigned(statement(release), signatures, role, 'release')) ?? true;
  } catch (error) {
    if (error instanceof Refusal && /Ed25519|WebCrypto/.test(error.message)) throw error;
    return false;
  }
}

function requireFresh(channel, sha256, known, time) {
  if (known && channel.sequence < known.sequence) refuse(`The channel went back from ${known.sequence} to ${channel.sequence}.`);
  if (known && channel.sequence === known.sequence && sha256 !== known.sha256) refuse('The channel has other content with the same sequence.');
  if (known && channel.sequence - known.sequence > LONGEST_STEP) refuse('The sequence of the channel jumps too far.');
  if (seconds(channel.expires) <= time) refuse(`The channel expired at ${channel.expires}.`);
}

/** Returns the memory of an accepted channel: recalls and minimum versions stay until a later file ends them. */
function remembered(channel, sha256, known) {
  const recalled = channel.recalled ?? [];
  const isOwn = (one) => recalled.some((other) => other.version === one.version);
  const isBack = (one) => (channel.reinstated ?? []).some((other) => other.version === one.version && other.sequence > one.sequence);
  const carried = (known?.recalled ?? []).map((one) => ({ version: one.version, sequence: one.sequence ?? known.sequence }))
    .filter((one) => !isOwn(one) && !isBack(one));
  const isUndone = channel.undoneMinimum && known?.floor && compare(known.floor, channel.undoneMinimum) <= 0;
  const floors = [channel.minimumVersion, isUndone ? null : known?.floor].filter(Boolean).sort(compare);
  return {
    sequence: channel.sequence, sha256, recalled: [...recalled.map(({ version }) => ({ version })), ...carried],
    floor: floors.at(-1) ?? null, clock: Math.max(known?.clock ?? 0, seconds(channel.issuedAt)),
  };
}

/** Returns the times since which the guard holds releases, by version. */
function heldSince(hold, channel, time) {
  if (!hold || (hold.appId ?? null) !== (channel.appId ?? null) || channel.sequence > hold.sequence || hold.sequence - channel.sequence > 16) return {};
  if (seconds(hold.issuedAt) > seconds(channel.expires) || seconds(hold.expires) <= time || seconds(hold.expires) - seconds(hold.issuedAt) > 7 * 86400) return {};
  return Object.fromEntries(hold.releases.map((version, index) => [version, hold.since[index]]));
}

function share(release, time) {
  if (release.only) return 0;
  if (!release.ramp) return release.rollout ?? ALL;
  const until = release.ramp.heldAt ? Math.min(time, seconds(release.ramp.heldAt)) : time;
  return release.ramp.steps.filter((step) => seconds(step.at) <= until).at(-1)?.rollout ?? 0;
}

async function isLeftOut(release, phone, time) {
  const own = `device:${hex(await digest(text.encode(phone.id))).slice(0, 16)}`;
  if ([...(phone.groups ?? []), own].some((group) => (release.groups ?? []).includes(group))) return false;
  const first = (await digest(text.encode((release.salt ?? '') + phone.id))).slice(0, 8);
  return Number(BigInt(`0x${hex(first)}`) % BigInt(ALL)) >= share(release, time);
}

const shellProblem = (release, shell) =>
  compare(shell, release.minShellVersion) < 0 ? 'app_too_old'
    : release.maxShellVersion && compare(shell, release.maxShellVersion) > 0 ? 'app_too_new' : null;

/** Returns the objection to a release, or null. `state` has what was verified before. */
function objection(release, phone, state) {
  const isInstalled = release.version === phone.running;
  if (!state.trusted.has(release.version) && !isInstalled) return 'not_signed';
  if (state.appId && release.appId !== state.appId) return 'wrong_app';
  const withdrawal = withdrawn(release.version, state);
  if (withdrawal) return withdrawal;
  if ((release.paused || state.held[release.version]) && !isInstalled) return 'paused';
  return shellProblem(release, phone.shell) ?? (state.holdIsUnknown && !isInstalled ? 'may_be_held' : null);
}

function withdrawn(version, state) {
  if (state.memory.recalled.some((one) => one.version === version)) return 'recalled';
  if (state.memory.floor && compare(version, state.memory.floor) < 0) return 'below_minimum';
  return state.leftOut.has(version) ? 'left_out' : null;
}

/** Returns { action: 'install', version } or one of the actions 'upToDate', 'blocked' with its reason, and 'leave'. */
function choose(channel, phone, state) {
  const own = channel.releases.find((release) => release.version === phone.running);
  const runs = phone.running != null;
  const newest = runs && !withdrawn(phone.running, state) && !(own && shellProblem(own, phone.shell)) ? phone.running : null;
  let [refused, recalled, picked] = [null, null, null];
  for (const release of [...channel.releases].sort((left, right) => compare(right.version, left.version))) {
    const reason = objection(release, phone, state);
    if (reason === null) {
      if (newest === null || compare(release.version, newest) > 0) return { action: 'install', version: release.version, leaving: runs && newest === null };
      picked = refused ?? { reason: null };
      break;
    }
    if (['recalled', 'below_minimum'].includes(reason)) recalled ??= { reason }; else refused ??= { reason };
    if (newest !== null && compare(release.version, newest) <= 0) break;
  }
  picked ??= refused ?? recalled;
  if (runs && newest === null) return { action: 'leave' };
  const isQuiet = !picked?.reason || ['recalled', 'below_minimum', 'left_out'].includes(picked.reason);
  return isQuiet ? { action: 'upToDate' } : { action: 'blocked', reason: picked.reason };
}

async function read(fetcher, address) {
  const response = await fetcher(address, { cache: 'no-cache' });
  return response.ok ? { document: await response.text() } : { status: response.status };
}

/** Verifies a channel of the feed at `feed` and returns it, ready to be judged. Stores its sequence in `storage`. */
export async function openChannel({ feed, channel = 'stable', trust = TRUST, storage = globalThis.localStorage, fetch: fetcher = globalThis.fetch, now = Date.now() / 1000 }) {
  if (!trust) refuse('The module has no trusted keys: write it with clientctl feed page-module --trust.');
  const [base, name] = [feed.endsWith('/') ? feed : `${feed}/`, `swap-clients ${channel}`];
  const known = JSON.parse(storage.getItem(name) ?? 'null');
  const time = Math.max(now, known?.clock ?? 0, BUILT);
  if (trust.expires && seconds(trust.expires) <= time) refuse(`The trusted keys expired at ${trust.expires}: update the app.`);
  const found = await read(fetcher, `${base}channels/${channel}.json`);
  if (!found.document) refuse(`The channel cannot be read: the server answered ${found.status}.`);
  const { value, sha256 } = await opened(found.document, 'channel', trust.roles.channel, 'channel');
  if (value.channel !== channel || (trust.appId && value.appId !== trust.appId)) refuse('The channel is another one.');
  requireFresh(value, sha256, known, Math.max(time, seconds(value.issuedAt)));
  let [hold, holdIsUnknown] = [null, false];
  if (trust.roles.guard) {
    const file = await read(fetcher, `${base}channels/${channel}.hold.json`).catch(() => ({ status: 0 }));
    const isAbsent = file.status >= 400 && file.status < 500 && ![401, 408, 429].includes(file.status);
    holdIsUnknown = !file.document && !isAbsent;
    if (file.document) hold = (await opened(file.document, 'hold', trust.roles.guard, 'hold').catch(() => null))?.value ?? null;
    if (hold?.channel !== channel) hold = null;
  }
  const trusted = new Set();
  for (const release of value.releases) if (await isTrustedRelease(release, trust.roles.release)) trusted.add(release.version);
  const memory = remembered(value, sha256, known);
  storage.setItem(name, JSON.stringify(memory));
  return { base, value, trust, judge: async (phone, at = now) => {
    const moment = Math.max(at, time);
    if (seconds(value.expires) <= moment) refuse(`The channel expired at ${value.expires}.`);
    const leftOut = new Set();
    for (const release of value.releases) if (await isLeftOut(release, phone, Math.max(moment, seconds(value.issuedAt)))) leftOut.add(release.version);
    const state = { trusted, memory, leftOut, holdIsUnknown, held: heldSince(hold, value, moment), appId: trust.appId ?? value.appId };
    return choose(value, { ...phone, running: isVersion(phone.running) ? phone.running : null }, state);
  } };
}

/** Checks the feed, and downloads and sets the update with Capgo's `updater` plugin. Returns what it did. */
export async function update(updater, { id, shell, groups, isKeyed = false, ...options }) {
  const channel = await openChannel(options);
  const { bundle } = await updater.current();
  const phone = { id, groups, shell: shellVersion(shell) ?? refuse(`${shell} is not a version of an app.`), running: bundle?.version };
  const verdict = await channel.judge(phone);
  if (verdict.action === 'leave') await updater.reset({ toLastSuccessful: false });
  if (verdict.action !== 'install') return verdict;
  const folder = `${channel.base}releases/v${verdict.version}/`;
  const found = await read(options.fetch ?? globalThis.fetch, `${folder}phone.json`);
  if (!found.document && verdict.leaving) await updater.reset({ toLastSuccessful: false });
  if (!found.document) refuse(`Version ${verdict.version} was published without --phone.`);
  const { value } = await opened(found.document, 'phone', channel.trust.roles.release, 'phone bundle');
  const release = channel.value.releases.find((one) => one.version === verdict.version);
  if (value.version !== verdict.version || value.manifestSha256 !== hex(await digest(statement(release)))) refuse('The phone bundle is of another release.');
  const file = isKeyed ? value.encrypted ?? refuse(`Version ${verdict.version} is not encrypted.`) : { file: value.file, checksum: value.sha256 };
  const made = await updater.download({ url: folder + file.file, version: verdict.version, checksum: file.checksum, sessionKey: file.sessionKey ?? '' });
  await updater.next({ id: made.id });
  return verdict;
}
