// The strip of counts: how many queues are in each state. Each count is a button that shows only those queues.
import { $, element } from './text.js';
import { verdicts } from './queue.js';

const found = (verdict) => (q) => q.verdict === verdict || (q.findings || []).some((f) => f.verdict === verdict);

// always are the counts that are shown even if they are 0. Other verdicts have a count only while there are such queues.
const always = {
  held: (q) => q.holders.length > 0 || (q.group?.shards || []).some((s) => s.holder),
  waiting: (q) => q.waiters.length > 0 || q.group && ['waiting', 'nobody', 'away'].includes(q.verdict),
  stuck: found('stuck behind'),
  ghost: found('ghost'),
};
const rare = ['mixed', 'foreign node', 'exhausted', 'revoke asked'];
let chosen = ''; // the only state that is shown

// picks reports whether a queue is shown according to the strip.
export const picks = (q) => !chosen || (q.unreadable ? chosen === 'unreadable' : chosen !== 'unreadable' && (always[chosen] || found(chosen))(q));

const buttons = new Map();

function count(name, n, tone, changed) {
  let b = buttons.get(name);
  if (!b) {
    b = element('button', '', element('b'), element('span', '', name || 'all'));
    b.type = 'button';
    b.onclick = () => {
      chosen = chosen === name ? '' : name;
      press();
      changed();
    };
    buttons.set(name, b);
    $('strip').append(b);
  }
  b.className = n > 0 ? tone : 'none';
  b.firstChild.textContent = n.toLocaleString('en');
}

function press() {
  for (const [name, b] of buttons) b.ariaPressed = String(name === chosen);
}

// draw updates the counts, and calls changed when another state is chosen.
export function draw(queues, unreadable, changed) {
  const counts = { held: 0, waiting: 0, stuck: 0, ghost: 0 };
  for (const q of queues) {
    for (const name in always) if (always[name](q)) counts[name]++;
    for (const name of rare) if (found(name)(q)) counts[name] = (counts[name] || 0) + 1;
  }
  count('', queues.length, 'all', changed);
  count('held', counts.held, 'good', changed);
  count('waiting', counts.waiting, '', changed);
  count('stuck', counts.stuck, 'warn', changed);
  count('ghost', counts.ghost, 'bad', changed);
  count('unreadable', unreadable, 'warn', changed);
  for (const name of rare) {
    if (counts[name]) count(name, counts[name], verdicts[name], changed);
    else if (chosen === name) count(name, 0, '', changed);
    else if (buttons.has(name)) {
      buttons.get(name).remove();
      buttons.delete(name);
    }
  }
  press();
}
