// What zkr has seen: time lines of holders, and a list of changes.
import { $, aged, at, clock, element, names, shown, span } from './text.js';

const most = 500; // changes kept, the same number as in zkr
const listed = 200; // of those, shown in the list
const periods = 12; // of a queue, in its list
const busiest = 8; // queues with a time line below the list
let changes = []; // oldest first

export function forget() {
  changes = [];
  $('changes').replaceChildren();
}

export function tell(c) {
  changes = [...changes, c].slice(-most);
  const when = element('span', 'when');
  if (c.after) when.append(at(c.after), ' to ');
  when.append(at(c.at));
  const li = element('li', c.lost ? 'lost' : '', when, element('span', 'of', ...names(c.path ? [c.path] : [])),
    element('span', 'words', ...names(c.words.split(' → '), ' → ')));
  $('changes').prepend(li);
  while ($('changes').children.length > listed) $('changes').lastChild.remove();
}

const now = () => Date.now() + clock.skew;

// holds lists who held a queue, oldest first. Whether a holder left while no zkr was running is not known.
function holds(path) {
  const list = [];
  let open;
  const end = (to) => { if (open) list.push({ ...open, to }); open = undefined; };
  for (const c of changes) {
    if (c.started) end('');
    if (c.path !== path || c.lost) continue;
    end(c.at);
    if (c.held) open = { who: c.held, from: c.at };
  }
  end('now');
  for (const h of list) {
    h.start = Date.parse(h.from);
    h.end = h.to === '' ? h.start : h.to === 'now' ? now() : Date.parse(h.to);
  }
  return list;
}

// hue returns the colour of a holder, which is the same in all time lines.
function hue(who) {
  let sum = 0;
  for (const letter of who.join()) sum = (sum * 31 + letter.codePointAt(0)) % 997;
  return 'h' + sum % 6;
}

// lane draws holds between two times. The width of a hold is its duration; blank stretches were free, or were not seen.
function lane(list, from, to) {
  const e = element('div', 'lane');
  for (const h of list) {
    const start = 100 * Math.max(0, h.start - from) / (to - from), end = 100 * (h.end - from) / (to - from);
    const bar = element('span', hue(h.who) + (h.to === 'now' ? ' now' : ''), end - start > 4 ? element('bdi', '', h.who.join(', ')) : '');
    bar.style.left = start + '%';
    bar.style.width = Math.max(0.2, end - start) + '%';
    bar.title = shown(h.who.join(', ') + ', ' + span(h.end - h.start));
    e.append(bar);
  }
  return e;
}

function axis(from, to) {
  return element('p', 'axis', element('span', '', span(to - from) + ' ago'), element('span', '', span((to - from) / 2) + ' ago'), element('span', '', 'now'));
}

// timeLine draws the newest holds of a queue, and lists them.
export function timeLine(path) {
  const list = holds(path).slice(-periods);
  if (list.length === 0) return '';
  const to = now(), from = Math.min(list[0].start, to - 1000);
  const ol = element('ol', 'time');
  for (const h of [...list].reverse()) {
    const took = h.to === 'now' ? ['for ', aged(h.from)] : h.to === '' ? ['its end was not observed'] : ['held for ' + span(h.end - h.start)];
    ol.append(element('li', '', element('i', hue(h.who)), element('b', '', ...names(h.who)), ' ', element('span', 'took', ...took), ' ', element('span', 'when', 'from ', at(h.from))));
  }
  return element('section', 'held', element('h3', '', 'Who held it'), lane(list, from, to), axis(from, to), ol);
}

let drawn = ''; // the lanes currently shown, so that a lane under the pointer is not replaced

// drawHistory draws the time lines of the queues that changed last, on a common axis.
export function drawHistory() {
  const paths = [...new Set([...changes].reverse().map((c) => c.path).filter(Boolean))].slice(0, busiest);
  const lists = paths.map((path) => [path, holds(path)]).filter(([, list]) => list.length > 0);
  $('history').classList.toggle('none', changes.length === 0);
  $('seen').textContent = changes.length === 0 ? 'Nothing has changed since zkr serve started. Holders and changes appear here as they happen.' : '';
  const seen = changes.length + changes.at(-1)?.at;
  const lasts = lists.some(([, list]) => list.some((h) => h.to === 'now'));
  if (seen === drawn && !lasts) return;
  drawn = seen;
  if (lists.length === 0) {
    $('lanes').replaceChildren();
    return;
  }
  const to = now(), from = Math.min(to - 1000, ...lists.map(([, list]) => list[0].start));
  $('lanes').replaceChildren(...lists.map(([path, list]) => element('li', '', element('span', 'of', ...names([path])), lane(list, from, to))),
    element('li', 'scale', element('span'), axis(from, to)));
}
