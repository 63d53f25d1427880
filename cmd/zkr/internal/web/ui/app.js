'use strict';
// The page keeps all queues in memory, and draws those that the filter lets through. An event carries what has changed.
const queues = new Map(); // by path
const drawn = new Map(); // tbody by path
const open = new Set();
const limit = 400; // queues drawn at once: a person reads no more, and a browser draws them in a moment
let skew = 0; // the clock of zkr minus ours
let view = { current: false, as_of: null, heard: 0, error: '', hidden: '' };
let breaks = false; // zkr deletes contenders if it is asked with the key

const $ = (id) => document.getElementById(id);
const bad = new Set(['mixed', 'foreign node', 'ghost', 'exhausted']);
const warn = new Set(['stuck behind', 'revoke asked']);

function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = shown(text); // never HTML: names are what any client of ZooKeeper has written
  if (className) e.className = className;
  return e;
}

// shown is text without characters that turn what follows around.
function shown(text) {
  return String(text).replace(/[\p{Cc}\p{Bidi_Control}]/gu, (c) => '\\u' + c.codePointAt(0).toString(16).padStart(4, '0'));
}

// named is an element with texts, each isolated: letters that are written from right to left do not reorder their neighbours.
function named(tag, texts, className, between = ', ') {
  const e = element(tag, undefined, className);
  for (const [i, text] of texts.entries()) e.append(i ? between : '', element('bdi', text));
  return e;
}

const counted = (n, what) => n + ' ' + what + (n === 1 ? '' : 's');

function age(since) {
  const s = Math.max(0, (Date.now() + skew - Date.parse(since)) / 1000);
  if (s < 60) return Math.floor(s) + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + Math.floor(s % 60) + ' s';
  if (s < 172800) return Math.floor(s / 3600) + ' h ' + Math.floor((s % 3600) / 60) + ' min';
  return Math.floor(s / 86400) + ' days';
}

const name = (c) => c.id || c.node.slice(c.node.lastIndexOf('/') + 1);
const few = (list) => list.length > 3 ? [...list.slice(0, 3).map(name), (list.length - 3) + ' more'] : list.map(name);

function row(cells, className) {
  const tr = element('tr', undefined, className);
  tr.append(...cells);
  return tr;
}

function aged(since) {
  const td = element('td', age(since), 'number');
  td.dataset.since = since;
  return td;
}

function last(q, c) {
  const td = element('td', 'token ' + c.token + ' session ' + (c.session || 'none'));
  if (breaks) {
    const button = element('button', 'break…');
    button.onclick = () => ask(q, c);
    td.append(' ', button);
  }
  return td;
}

function draw(q) {
  const body = element('tbody');
  const first = q.holders[0];
  const verdict = element('td', q.verdict, 'verdict' + (bad.has(q.verdict) ? ' bad' : warn.has(q.verdict) ? ' warn' : ''));
  const head = row([
    named('td', [q.path], 'path'), element('td', q.kind), verdict, named('td', few(q.holders)),
    first ? aged(first.since) : element('td'), element('td', q.waiters.length || '', 'number'),
  ], 'queue');
  head.tabIndex = 0;
  head.onclick = () => { open.has(q.path) ? open.delete(q.path) : open.add(q.path); replace(q); };
  head.onkeydown = (e) => { if (e.key === 'Enter') head.onclick(); };
  body.append(head);
  if (q.verdict !== 'held') {
    const td = named('td', [q.words]);
    td.colSpan = 6;
    body.append(row([td], 'words'));
  }
  if (open.has(q.path)) {
    for (const c of [...q.holders, ...q.waiters, ...(q.foreign || [])].slice(0, 200)) {
      body.append(row([
        named('td', [c.node.slice(c.node.lastIndexOf('/') + 1)], 'node'), element('td', c.mode),
        element('td', c.library === 'foreign' ? '?' : c.place ? 'waits, ' + c.place : 'holds'),
        named('td', [name(c)]), aged(c.since), last(q, c),
      ], 'contender'));
    }
  }
  return body;
}

function replace(q) {
  const old = drawn.get(q.path);
  if (!old) return;
  const body = draw(q);
  old.replaceWith(body);
  drawn.set(q.path, body);
}

function lets(q) {
  if ($('verdict').value && q.verdict !== $('verdict').value) return false;
  if ($('waited').checked && q.waiters.length === 0) return false;
  const text = $('filter').value.trim().toLowerCase();
  if (!text) return true;
  const all = [q.path, q.kind, q.words];
  for (const c of [...q.holders, ...q.waiters]) all.push(c.id, c.host, c.token, c.session, c.node);
  return all.join(' ').toLowerCase().includes(text);
}

function show() {
  const wanted = [...queues.values()].filter(lets).sort((a, b) => (a.path < b.path ? -1 : 1));
  const some = wanted.slice(0, limit);
  const keep = new Set(some.map((q) => q.path));
  for (const [path, body] of drawn) if (!keep.has(path)) { body.remove(); drawn.delete(path); }
  let before = $('queues').tHead;
  for (const q of some) {
    let body = drawn.get(q.path);
    if (!body) { body = draw(q); drawn.set(q.path, body); }
    if (before.nextSibling !== body) before.after(body);
    before = body;
  }
  $('count').textContent = (wanted.length === queues.size ? '' : wanted.length + ' of ') + counted(queues.size, 'queue');
  $('more').textContent = wanted.length > limit ? (wanted.length - limit) + ' more: use the filter' : '';
}

function tell(c) {
  const li = element('li', undefined, c.lost ? 'lost' : '');
  const at = (time) => element('time', new Date(time).toLocaleString());
  if (c.after) li.append(at(c.after), ' to ');
  li.append(at(c.at), ' ', element('bdi', c.path), ': ', named('span', c.words.split(' → '), '', ' → '));
  $('changes').prepend(li);
  while ($('changes').children.length > 200) $('changes').lastChild.remove();
}

// The dialog first asks zkr what the servers say of a contender now. Then its button deletes.
let asked = null; // what the request names
let looked = false; // the dialog shows the answer
let key = '';
let resting = 0; // the timer that enables the button again

async function post(body) {
  const answer = await fetch('break', {
    method: 'POST', headers: { 'Content-Type': 'application/json', 'Zkr-Key': key }, body: JSON.stringify(body),
  });
  const said = await answer.json();
  if (answer.status === 401) key = '';
  if (!answer.ok) throw new Error(said.error);
  return said;
}

function facts(q, c, alive) {
  $('doomed').replaceChildren(element('bdi', name(c)), c.place ? ' waits at place ' + c.place : ' holds', ' at ', element('bdi', c.path));
  $('facts').replaceChildren();
  for (const [term, text] of [['path', c.path], ['holder', q.holders.map(name).join(', ') || 'none'], ['node', c.node], ['token', c.token + ' (czxid)'],
    ['here for', age(c.since)], ['session', (c.session || 'none') + (alive ? ', ' + alive : '')]]) {
    $('facts').append(element('dt', term), named('dd', [text]));
  }
}

function step(error) {
  $('key').parentElement.hidden = key !== '';
  $('refused').textContent = error ? shown(error.message) : '';
  $('really').textContent = looked ? 'Delete czxid ' + asked.token : 'Ask the servers';
}

function ask(q, c) {
  asked = { path: q.path, token: c.token };
  looked = false;
  clearTimeout(resting);
  $('really').disabled = false;
  facts(q, { ...c, path: q.path });
  for (const id of ['alive', 'foreign']) { $(id).checked = false; $(id).closest('p').hidden = true; }
  for (const id of ['key', 'reason']) $(id).value = '';
  step();
  $('break').showModal();
}

$('really').onclick = async () => {
  const what = asked;
  key = key || $('key').value.trim();
  try {
    if (looked) {
      const done = await post({ ...what, alive: $('alive').checked, foreign: $('foreign').checked, reason: $('reason').value, confirm: true });
      if (done.error) throw new Error(done.error);
      $('break').close();
      return;
    }
    const now = await post(what);
    if (what !== asked) return; // it was closed, and opened for another one
    looked = true;
    $('really').disabled = true; // the second half of a double click must not delete
    clearTimeout(resting);
    resting = setTimeout(() => { $('really').disabled = false; }, 1000);
    facts(queues.get(what.path) || { holders: [] }, now, now.alive);
    $('alive').closest('p').hidden = now.alive !== 'alive';
    $('foreign').closest('p').hidden = now.library !== 'foreign';
    step();
  } catch (error) {
    step(error);
  }
};

function state() {
  const silent = Date.now() - view.heard > 5000;
  const stale = silent || !view.current || view.error;
  $('state').className = stale ? 'stale' : '';
  document.body.className = stale ? 'outdated' : '';
  $('state').textContent = shown(silent ? 'no connection to zkr' : view.error ? view.error
    : view.current ? 'live' + (view.hidden ? ': ' + view.hidden : '') : view.as_of ? 'no connection to ZooKeeper: this is ' + age(view.as_of) + ' old' : 'reading');
  for (const td of document.querySelectorAll('[data-since]')) td.textContent = age(td.dataset.since);
}

const source = new EventSource('events');
source.onmessage = (e) => {
  const m = JSON.parse(e.data);
  if (m.first) queues.clear();
  skew = Date.parse(m.now) - Date.now();
  view = { current: m.current, as_of: m.as_of, heard: Date.now(), error: m.error || '', hidden: m.hidden || '' };
  breaks = Boolean(m.break);
  $('root').replaceChildren(element('bdi', m.root));
  if (m.first) $('changes').replaceChildren();
  for (const q of m.changed || []) {
    queues.set(q.path, q);
    replace(q);
  }
  for (const path of m.gone || []) queues.delete(path);
  for (const c of m.changes || []) tell(c);
  if (m.first || m.changed || m.gone) show();
  state();
};
source.onerror = () => { view.heard = 0; state(); };
for (const v of ['held', 'stuck behind', 'ghost', 'foreign node', 'mixed', 'exhausted', 'revoke asked']) $('verdict').append(element('option', v));
$('filters').oninput = show;
$('filters').onsubmit = (e) => e.preventDefault();
setInterval(state, 1000);
