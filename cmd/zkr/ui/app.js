'use strict';
// The page keeps all queues in memory, and draws those that the filter lets through. An event carries what has changed.
const queues = new Map(); // by path
const drawn = new Map(); // tbody by path
const open = new Set();
const limit = 400; // queues drawn at once: a person reads no more, and a browser draws them in a moment
let skew = 0; // the clock of zkr minus ours
let view = { current: false, as_of: null, heard: 0, error: '' };

const $ = (id) => document.getElementById(id);
const bad = new Set(['mixed', 'foreign node', 'ghost', 'exhausted']);
const warn = new Set(['stuck behind', 'revoke asked']);

function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text; // never HTML: names are what any client of ZooKeeper has written
  if (className) e.className = className;
  return e;
}

function age(since) {
  const s = Math.max(0, (Date.now() + skew - Date.parse(since)) / 1000);
  if (s < 60) return Math.floor(s) + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + Math.floor(s % 60) + ' s';
  if (s < 172800) return Math.floor(s / 3600) + ' h ' + Math.floor((s % 3600) / 60) + ' min';
  return Math.floor(s / 86400) + ' days';
}

const name = (c) => c.id || c.node.slice(c.node.lastIndexOf('/') + 1);
const holders = (q) => q.holders.map(name).join(', ');

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

function draw(q) {
  const body = element('tbody');
  const first = q.holders[0];
  const verdict = element('td', q.verdict, 'verdict' + (bad.has(q.verdict) ? ' bad' : warn.has(q.verdict) ? ' warn' : ''));
  const head = row([
    element('td', q.path, 'path'), element('td', q.kind), verdict,
    element('td', q.holders.length > 3 ? holders({ holders: q.holders.slice(0, 3) }) + ' and ' + (q.holders.length - 3) + ' more' : holders(q)),
    first ? aged(first.since) : element('td'), element('td', q.waiters.length || '', 'number'),
  ], 'queue');
  head.tabIndex = 0;
  head.onclick = () => { open.has(q.path) ? open.delete(q.path) : open.add(q.path); replace(q); };
  head.onkeydown = (e) => { if (e.key === 'Enter') head.onclick(); };
  body.append(head);
  if (q.verdict !== 'held') {
    const td = element('td', q.words);
    td.colSpan = 6;
    body.append(row([td], 'words'));
  }
  if (open.has(q.path)) {
    for (const c of [...q.holders, ...q.waiters, ...(q.foreign || [])].slice(0, 200)) {
      body.append(row([
        element('td', c.node.slice(c.node.lastIndexOf('/') + 1), 'node'), element('td', c.mode),
        element('td', c.library === 'foreign' ? '?' : c.place ? 'waits, ' + c.place : 'holds'),
        element('td', name(c)), aged(c.since), element('td', 'token ' + c.token + ' session ' + (c.session || 'none')),
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
  $('count').textContent = wanted.length === queues.size ? queues.size + ' queues' : wanted.length + ' of ' + queues.size + ' queues';
  $('more').textContent = wanted.length > limit ? (wanted.length - limit) + ' more: use the filter' : '';
}

function tell(text) {
  const li = element('li');
  li.append(element('time', new Date().toLocaleTimeString()), ' ' + text);
  $('changes').prepend(li);
  while ($('changes').children.length > 50) $('changes').lastChild.remove();
}

function note(path, before, after) {
  const was = before ? holders(before) : '', is = after ? holders(after) : '';
  const tokens = (q) => (q ? q.holders.map((c) => c.token).join() : '');
  if (tokens(before) === tokens(after)) return;
  tell(path + ': ' + (was || 'free') + ' → ' + (is || 'free'));
}

function state() {
  const silent = Date.now() - view.heard > 5000;
  const stale = silent || !view.current || view.error;
  $('state').className = stale ? 'stale' : '';
  document.body.className = stale ? 'outdated' : '';
  $('state').textContent = silent ? 'no connection to zkr' : view.error ? view.error
    : view.current ? 'live' : view.as_of ? 'no connection to ZooKeeper: this is ' + age(view.as_of) + ' old' : 'reading';
  for (const td of document.querySelectorAll('[data-since]')) td.textContent = age(td.dataset.since);
}

const source = new EventSource('events');
source.onmessage = (e) => {
  const m = JSON.parse(e.data);
  if (m.first) queues.clear();
  skew = Date.parse(m.now) - Date.now();
  view = { current: m.current, as_of: m.as_of, heard: Date.now(), error: m.error || '' };
  $('root').textContent = m.root;
  for (const q of m.changed || []) {
    if (!m.first) note(q.path, queues.get(q.path), q);
    queues.set(q.path, q);
    replace(q);
  }
  for (const path of m.gone || []) {
    note(path, queues.get(path), null);
    queues.delete(path);
  }
  if (m.first || m.changed || m.gone) show();
  state();
};
source.onerror = () => { view.heard = 0; state(); };
for (const v of ['held', 'stuck behind', 'ghost', 'foreign node', 'mixed', 'exhausted', 'revoke asked']) $('verdict').append(element('option', v));
$('filters').oninput = show;
$('filters').onsubmit = (e) => e.preventDefault();
setInterval(state, 1000);
