// One queue: a row that says how it is, and, if it is open, the queue itself.
import { timeLine } from './changes.js';
import { aged, element, last, left, name, names, own, shown } from './text.js';

export const verdicts = { held: 'good', free: 'good', 'stuck behind': 'warn', 'revoke asked': 'warn', mixed: 'bad', 'foreign node': 'bad', ghost: 'bad', exhausted: 'bad' };
const opened = new Set(); // paths: a queue that was empty for a while is open as it was
const most = 100; // contenders drawn in a queue: a person reads no more

// Row draws a queue into one item of a list, again and again, so that the keyboard stays where it is.
export class Row {
  constructor(queue, ask) {
    this.ask = ask; // called with queue and contender to delete one; undefined if that is not allowed
    this.item = element('li', 'queue');
    this.details = element('details');
    this.summary = element('summary');
    this.details.append(this.summary);
    this.item.append(this.details);
    this.details.open = opened.has(queue.path);
    this.details.ontoggle = () => {
      opened[this.details.open ? 'add' : 'delete'](queue.path);
      this.drawLine();
    };
    this.draw(queue);
  }

  draw(queue) {
    this.queue = queue;
    const { verdict, holders, waiters, words } = queue;
    this.summary.replaceChildren(
      element('span', 'path', ...names([queue.path])), element('span', 'kind', queue.kind), element('span', 'verdict ' + verdicts[verdict], verdict),
      element('span', 'holder', ...holding(holders, queue.granted)), element('span', 'waiting', ...waiting(waiters)),
    );
    if (verdict !== 'held') this.summary.append(element('span', 'words ' + verdicts[verdict], ...names([words])));
    this.drawLine();
  }

  drawLine() {
    const focused = this.details.contains(document.activeElement) && document.activeElement.dataset.token;
    this.line?.remove();
    if (!this.details.open) return;
    this.time = element('div', '', timeLine(this.queue.path));
    this.line = element('div', '', line(this.queue, this.ask), this.time);
    this.details.append(this.line);
    if (focused) this.line.querySelector(`[data-token="${focused}"]`)?.focus();
  }

  // The bar of a hold that lasts grows beside its words.
  grow() {
    if (this.details.open && this.time?.querySelector('.now')) this.time.replaceChildren(timeLine(this.queue.path));
  }
}

function holding(holders, granted) {
  if (holders.length === 0) return [];
  const few = holders.slice(0, 3).map(name);
  if (holders.length > 3) few.push(holders.length - 3 + ' more');
  return [element('b', '', ...names(few)), ' ', ...since(holders[0], granted)];
}

// A node tells when it joined the queue. When it was granted is known only if zkr has seen that.
const since = (c, granted) => granted?.[c.node] ? ['for ', aged(granted[c.node])] : ['here for ', aged(c.since)];

function waiting(waiters) {
  if (waiters.length === 0) return [];
  return waiters.length === 1 ? ['1 waits, for ', aged(waiters[0].since)] : [waiters.length + ' wait, the first for ', aged(waiters[0].since)];
}

// line is the queue: its holders, and behind them, in groups, those who wait for the same node.
function line(queue, ask) {
  const all = [...queue.holders, ...queue.waiters, ...(queue.foreign || [])];
  const byNode = new Map(all.map((c) => [c.node, c]));
  const list = element('ol', 'line');
  let group, before;
  for (const c of all.slice(0, most)) {
    const key = c.library === 'foreign' ? 'foreign' : c.place ? 'behind ' + c.behind : 'holds';
    if (key !== before) {
      group = element('li', 'group ' + key.split(' ')[0]);
      list.append(group);
      before = key;
    }
    group.append(card(queue, c, byNode.get(c.behind), ask));
  }
  if (all.length > most) list.append(element('li', 'group', all.length - most + ' more'));
  return list;
}

function card(queue, c, ahead, ask) {
  const role = c.library === 'foreign' ? 'of no known recipe' : c.place ? 'waits, place ' + c.place : 'holds';
  const mode = ['read', 'write', 'permit'].includes(c.mode) ? ', ' + c.mode : '';
  const e = element('div', 'card', element('p', 'role', role + mode), element('p', 'name', ...names([name(c)])));
  if (queue.granted?.[c.node]) e.append(element('p', '', 'for ', aged(queue.granted[c.node])));
  e.append(element('p', '', 'in the queue for ', aged(c.since)));
  if (c.node === own.node) e.append(element('p', 'good', 'this zkr; proven for ', element('span', 'left', left())));
  if (ahead) e.append(element('p', '', 'behind ', ...names([name(ahead)])));
  if (c.revoke_asked) e.append(element('p', 'warn', 'asked to release ', aged(c.revoke_asked), ' ago'));
  const facts = element('dl');
  for (const [term, text] of [['token', c.token], ['session', c.session || 'none'], ['node', last(c.node)]]) {
    facts.append(element('dt', '', term), element('dd', '', ...names([text])));
  }
  e.append(facts);
  if (ask) {
    const button = element('button', '', 'break…');
    button.ariaLabel = shown('break ' + name(c));
    button.dataset.token = c.token;
    button.onclick = () => ask(queue, c);
    e.append(button);
  }
  return e;
}
