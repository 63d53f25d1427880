// The page keeps all queues in memory and draws those that pass the filters. Events only carry changes.
import { $, age, aged, at, clock, counted, element, left, names, own, shown, span } from './text.js';
import { follow } from './stream.js';
import { rank, Row } from './queue.js';
import { draw as drawStrip, picks } from './strip.js';
import { ask } from './break.js';
import { drawHistory, forget, tell } from './history.js';

const queues = new Map(); // by path
const rows = new Map(); // drawn queues, by path
const limit = 400; // queues drawn at once: nobody reads more, and a browser draws this many quickly
let view = {}; // the newest message
let breaks = false; // zkr deletes contenders for requests with the key

function lets(q) {
  if (!picks(q)) return false;
  const text = $('filter').value.trim().toLowerCase();
  if (!text) return true;
  const all = [q.path, q.kind, q.words];
  for (const c of [...q.holders, ...q.waiters]) all.push(c.id, c.host, c.token, c.session, c.node);
  for (const s of q.group?.shards || []) all.push(s.shard, s.member, s.holder, s.token, s.session);
  return all.join(' ').toLowerCase().includes(text);
}

// closed returns rows for nodes that zkr may not read.
const closed = () => (view.unread || []).map((path) => ({
  path, unreadable: true, kind: '', verdict: 'unreadable', words: 'its ACL does not grant zkr read permission: pass --auth-file', holders: [], waiters: [],
}));

function show() {
  const all = [...queues.values()];
  drawStrip(all, view.unreads || 0, show);
  const wanted = [...all, ...closed()].filter(lets).sort((a, b) => rank(a) - rank(b) || (a.path < b.path ? -1 : 1));
  const some = wanted.slice(0, limit);
  const keep = new Set(some.map((q) => q.path));
  for (const [path, row] of rows) if (!keep.has(path)) { row.item.remove(); rows.delete(path); }
  let next = $('queues').firstChild;
  for (const q of some) {
    if (!rows.has(q.path)) rows.set(q.path, new Row(q, breaks && ask));
    const item = rows.get(q.path).item;
    if (item === next) next = next.nextSibling;
    else $('queues').insertBefore(item, next);
  }
  const ours = wanted.filter((q) => !q.unreadable).length;
  $('count').textContent = (ours === queues.size ? '' : ours + ' of ') + counted(queues.size, 'queue');
  $('more').textContent = wanted.length > limit ? (wanted.length - limit) + ' more: use the filter' : queues.size > 0 && wanted.length === 0 ? 'No queue matches the filter.' : '';
  $('empty').hidden = queues.size > 0 || !view.current;
  $('heads').hidden = wanted.length === 0;
}

// invite shows what to run when there is nothing to see.
function invite() {
  const root = view.root === '/' ? '' : view.root;
  $('nothing').replaceChildren('No locks below ', ...names([view.root]));
  $('try').textContent = shown(`zkr lock ${view.server ? '--servers ' + view.server + ' ' : ''}${root}/demo -- sleep 60`);
}

// standing describes the state of the connections: a word, and its explanation.
function standing() {
  if (link.lost && view.full) return ['not shown', names([view.full])];
  if (link.lost && !link.failed) return ['connecting', []];
  if (link.lost) {
    const next = link.next ? ', next try in ' + span(link.next - Date.now() + 999) : ', trying';
    return ['no connection to zkr', ['since ', at(link.lost), ', ' + span(Date.now() - link.lost) + ' ago' + next + (view.now ? '. The page shows the last known state.' : '.')]];
  }
  if (view.error) return ['not shown', names([view.error])];
  if (view.lost) {
    const old = view.as_of ? ['. The page shows the state of ', aged(view.as_of), ' ago.'] : [];
    return ['no connection to ZooKeeper', ['since ', at(view.lost), view.cause ? ': ' : '', ...names(view.cause ? [view.cause] : []), ...old]];
  }
  if (!view.current) return ['reading', []];
  return ['live', names([view.server ? 'from ' + view.server : '', view.hidden || ''].filter(Boolean), '. ')];
}

function state() {
  const [word, detail] = standing();
  const live = word === 'live';
  $('state').className = document.body.className = live ? '' : 'stale';
  if ($('state').textContent !== word) $('state').textContent = word; // a screen reader announces each change
  $('detail').replaceChildren(...detail);
  for (const e of document.querySelectorAll('.left')) e.textContent = left();
  for (const e of document.querySelectorAll('[data-since]')) e.textContent = age(e.dataset.since);
  for (const row of rows.values()) row.grow();
  drawHistory();
}

function hear(m) {
  clock.skew = Date.parse(m.now) - Date.now();
  const other = JSON.stringify(m.unread) !== JSON.stringify(view.unread) || m.current !== view.current;
  view = m;
  breaks = Boolean(m.break);
  $('root').replaceChildren(...names([m.root]));
  invite();
  if (m.first) {
    queues.clear();
    forget();
  }
  const elected = own.node !== (m.own?.node || '');
  own.node = m.own?.node || '';
  own.until = Date.parse(m.own?.valid_until);
  if (elected) for (const row of rows.values()) row.drawLine();
  for (const c of m.changes || []) tell(c);
  for (const q of m.changed || []) {
    queues.set(q.path, q);
    rows.get(q.path)?.draw(q);
  }
  for (const path of m.gone || []) queues.delete(path);
  if (m.first || m.changed || m.gone || other) show();
  state();
}

const link = follow('events', hear, () => state());

// The arrow keys move from queue to queue, and the slash to the filter.
document.onkeydown = (e) => {
  if (e.key === '/' && !e.target.matches('input:not([type=checkbox])') && !$('break').open) {
    e.preventDefault();
    $('filter').focus();
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (!step || !e.target.matches('#queues summary, #filter')) return;
  const stops = [$('filter'), ...document.querySelectorAll('#queues summary')];
  stops[stops.indexOf(e.target) + step]?.focus();
  e.preventDefault();
};
$('filters').oninput = show;
$('filters').onsubmit = (e) => e.preventDefault();
drawStrip([], 0, show);
setInterval(state, 1000);
