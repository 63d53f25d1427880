// Draws a view of the program. Each element describes itself in data attributes, which tests read.

const SVG = 'http://www.w3.org/2000/svg';
const OPEN = -1;
const BAR = 22, RULE = 9;

// Picture is the lanes over the time axis.
export class Picture {
  #svg; #width = 0; #pools = new Map(); #used; #layers = {};

  constructor(svg) {
    this.#svg = svg;
    svg.innerHTML = `<defs>
      <pattern id="hatch-cut" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line y2="7" stroke="var(--bad)" stroke-width="1.8" opacity=".8"/></pattern>
      <pattern id="hatch-frozen" width="6" height="6" patternUnits="userSpaceOnUse"><line y2="6" x1="2" x2="2" stroke="var(--accent)" stroke-width="1.6" opacity=".7"/></pattern>
      <pattern id="hatch-reads" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="8" height="8" fill="var(--reads)"/><line y2="8" x1="1" x2="1" stroke="var(--holds-text)" stroke-width="1.5" opacity=".45"/></pattern>
      <pattern id="hatch-lost" width="7" height="7" patternUnits="userSpaceOnUse"><rect width="4" height="7" fill="var(--bad)"/></pattern>
      <pattern id="hatch-overlap" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><line y2="6" x1="2" x2="2" stroke="var(--bad)" stroke-width="3"/></pattern>
    </defs>`;
    for (const name of ['ground', 'grid', 'scroll', 'changes', 'front', 'labels', 'hits']) this.#layers[name] = svg.appendChild(document.createElementNS(SVG, 'g'));
  }

  // measure reads the width. Reading it in each draw would cost more than the drawing.
  measure() { this.#width = this.#svg.clientWidth; }

  // seconds is how much time the picture shows, and how much of it lies ahead.
  get seconds() { return this.#width < 640 ? { all: 13, ahead: 5.2 } : { all: 24, ahead: 7.6 }; }

  // draw draws a view. options: chosen (a name), rule (draw Curator's), choose (called with the name of a lane that is clicked).
  draw(view, options) {
    this.#used = new Set();
    const width = this.#width, seconds = this.seconds;
    // At first the line of the present moves to its place. Then the time scrolls below it.
    const k = width / seconds.all / 1000, offset = Math.min(14, width * (1 - seconds.ahead / seconds.all) - view.Now * k), nowX = view.Now * k + offset;
    const rule = options.rule && ['mutex', 'election'].includes(view.Recipe);
    const laneHeight = 73 + (rule ? RULE + 4 : 0), top = 4, bottom = top + view.Lanes.length * laneHeight;
    this.#svg.setAttribute('height', bottom + 24);
    this.#svg.setAttribute('viewBox', `0 0 ${width} ${bottom + 24}`);
    this.#svg.dataset.now = view.Now;
    for (const name of ['grid', 'scroll', 'changes']) this.#layers[name].setAttribute('transform', `translate(${offset.toFixed(2)} 0)`);
    this.#axis(view.Now, seconds, k, offset, bottom);
    view.Lanes.forEach((lane, i) => {
      const y = top + i * laneHeight;
      const at = { k, y, bar: y + 22, rule: y + 47, session: y + 49 + (rule ? RULE + 4 : 0), comb: y + 58 + (rule ? RULE + 4 : 0), bottom, width, nowX, offset, now: view.Now };
      this.#put('ground', `ground${i}`, 'rect', { class: lane.Name === options.chosen ? 'chosen' : 'hit', x: 0, y, width, height: laneHeight });
      this.#put('ground', `divide${i}`, 'line', { class: 'divide', x1: 0, x2: width, y1: y + laneHeight, y2: y + laneHeight });
      this.#lane(lane, at, rule);
      this.#put('hits', `hit${i}`, 'rect', { class: 'hit', x: 0, y, width, height: laneHeight }).onclick = () => options.choose(lane.Name);
    });
    this.#put('front', 'now', 'line', { class: 'now', x1: nowX, x2: nowX, y1: 0, y2: bottom });
    for (const [key, element] of this.#pools) if (!this.#used.has(key)) { element.remove(); this.#pools.delete(key); }
  }

  #axis(now, seconds, k, offset, bottom) {
    const from = Math.max(0, Math.ceil(now / 1000 - (seconds.all - seconds.ahead))), to = Math.floor(now / 1000 + seconds.ahead);
    for (let s = from; s <= to; s++) {
      this.#put('grid', `grid${s}`, 'line', { class: 'grid', x1: s * 1000 * k, x2: s * 1000 * k, y1: 0, y2: bottom });
      if (s % 2 === 0) this.#put('grid', `second${s}`, 'text', { class: 'axis', x: s * 1000 * k, y: bottom + 16, 'text-anchor': 'middle' }, s + ' s');
    }
  }

  #lane(lane, at, rule) {
    const who = lane.Name, { k } = at;
    const end = (span) => span.To === OPEN ? at.now : span.To;
    const bar = (kind, span, n, y, height, layer = 'scroll') => this.#put(layer, `${who}${kind}${span.From}${n}`, 'rect', {
      class: kind, x: span.From * k, width: Math.max(1.5, (end(span) - span.From) * k), y, height, rx: Math.min(4, height / 2),
      'data-kind': kind, 'data-who': who, 'data-from': span.From, 'data-to': span.To, 'data-token': span.Token, 'data-why': span.Why,
    });
    const text = (key, time, y, words, kind = 'soft', anchor = 'start', layer = 'scroll') =>
      this.#put(layer, who + key, 'text', { class: kind, x: time * k, y, 'text-anchor': anchor }, words);

    const words = { stopped: 'stopped', idle: 'idle', waits: 'waits', holds: 'holds', reads: 'reads' }[lane.State];
    const label = this.#put('labels', who + 'label', 'text', { class: 'name', x: 10, y: at.y + 16, stroke: 'var(--panel)', 'stroke-width': 4, 'paint-order': 'stroke' },
      `${who} · ${lane.Frozen ? 'frozen' : words}${lane.State !== 'stopped' && !lane.Connected && !lane.Frozen ? ', no connection' : ''}${lane.Losing ? ', will lose a reply' : ''}`);
    label.dataset.state = lane.State;
    label.dataset.who = who;
    at.label = 18 + label.textContent.length * 7.4; // leaves space next to it

    for (const span of lane.Sessions ?? []) {
      bar('session', span, '', at.session, 4);
      if (span.To !== OPEN) {
        const x = span.To * k;
        this.#put('scroll', `${who}over${span.From}`, 'line', { class: 'over', x1: x, x2: x, y1: at.session - 5, y2: at.session + 9, 'data-kind': 'over', 'data-who': who, 'data-at': span.To });
        text(`overText${span.From}`, span.To + 4 / k, at.session + 6, 'session ' + (span.Why === 'closed' ? 'closed' : 'ended'));
      }
    }
    for (const span of lane.Spans ?? []) {
      bar(span.Kind, span, span.Token, at.bar, BAR);
      const wide = (end(span) - span.From) * k;
      const visible = Math.max(span.From, -at.offset / k) + 7 / k;
      if (span.Kind !== 'waits') {
        if (wide > 66 && (end(span) - visible) * k > 60) text(`token${span.Token}`, visible, at.bar + 13, 'token ' + span.Token, 'on');
        if (span.To !== OPEN && span.Why && span.Why !== 'released' && span.Why !== 'closed') {
          this.#put('scroll', `${who}lost${span.Token}`, 'path', { class: 'deadline', d: diamond(span.To * k, at.bar + BAR / 2), 'data-kind': 'ended', 'data-who': who, 'data-at': span.To });
          text(`lostText${span.Token}`, span.To + 10 / k, at.bar + 15, 'lost: ' + span.Why.replace('-', ' '), 'bold');
        }
      }
    }
    for (const [n, span] of (lane.Both ?? []).entries()) this.#both(lane, at, span, n, text, 'by hand: two holders');
    for (const span of lane.Faults ?? []) {
      bar(span.Kind, span, '', at.bar - 2, at.comb - at.bar + 8);
      if (span.To === OPEN || span.To * k + at.offset > at.label + 80)
        text(`fault${span.Kind}${span.From}`, Math.max(span.From, (at.label - at.offset) / k) + 3 / k, at.y + 16, { cut: '✂ cut off', frozen: '❄ frozen' }[span.Kind]);
    }
    for (const request of lane.Requests ?? []) {
      const to = request.Done === OPEN ? at.now : request.Done;
      const changes = request.Changing && !request.Lost; // a read is often sent with a change, and must not hide it
      this.#put(changes ? 'changes' : 'scroll', `${who}request${request.Sent}${request.Op}`, 'rect', {
        class: request.Lost ? 'lost' : changes ? 'change' : 'request', x: request.Sent * k, width: Math.max(1.5, (to - request.Sent) * k - 1),
        y: at.comb - (changes ? 1.5 : 0), height: changes ? 8 : 5,
        'data-kind': 'request', 'data-who': who, 'data-from': request.Sent, 'data-op': request.Op, 'data-lost': request.Lost,
      });
    }
    for (const mark of lane.Marks ?? []) this.#mark(who, mark, at, text);
    if (rule) this.#rule(lane, at, bar, text);
    this.#ahead(lane, at, rule);

  }

  #mark(who, mark, at, text) {
    const x = mark.At * at.k, key = `${who}${mark.Kind}${mark.At}`;
    const data = { 'data-kind': mark.Kind, 'data-who': who, 'data-at': mark.At };
    switch (mark.Kind) {
      case 'event': this.#put('scroll', key, 'path', { class: 'event', d: `M${x - 5} ${at.comb - 7}h10l-5 6z`, ...data }); break;
      case 'write': this.#put('scroll', key, 'circle', { class: 'write', cx: x, cy: at.bar + BAR - 4, r: 1.9, ...data }); break;
      case 'refused':
        this.#put('front', key, 'path', { class: 'refused', d: `M${x - 6} ${at.bar + 5}l12 12m0 -12l-12 12`, transform: `translate(${at.offset} 0)`, ...data });
        this.#put('scroll', key + 'text', 'text', { class: 'refusedText', x: x + 12, y: at.bar + 15 }, 'write refused');
        break;
      case 'unanswered':
        this.#put('front', key, 'path', { class: 'unanswered', d: `M${x} ${at.y + 8}V${at.comb - 5}m-5 0l10 10m0 -10l-10 10`, transform: `translate(${at.offset} 0)`, ...data });
        text(key + 'text', Math.max(mark.At, (at.label - at.offset) / at.k) + 5 / at.k, at.y + 16, 'reply lost', 'refusedText');
        break;
    }
  }

  #rule(lane, at, bar, text) {
    for (const span of lane.Rule ?? []) {
      bar('rule', span, span.Token, at.rule, RULE);
      if (span.Why === 'LOST') text(`LOST${span.Token}`, span.To + 5 / at.k, at.rule + 9, 'LOST', 'curator bold');
    }
    for (const [n, span] of (lane.Overlaps ?? []).entries()) {
      bar('overlap', span, n, at.rule - 1, RULE + 2).dataset.why = span.Why;
      this.#both(lane, at, span, n, text, `two holders: ${((span.To - span.From) / 1000).toFixed(1)} s`);
    }
    if (lane.RuleDeadline) {
      const x = lane.RuleDeadline * at.k + at.offset;
      this.#put('front', lane.Name + 'ruleAhead', 'line', { class: 'ahead rule', x1: at.nowX, x2: x, y1: at.rule + 5, y2: at.rule + 5 });
      this.#put('front', lane.Name + 'ruleText', 'text', { class: 'curator bold', x: x + 4, y: at.rule + 9, 'data-kind': 'ruleDeadline', 'data-who': lane.Name, 'data-at': lane.RuleDeadline }, 'LOST');
    }
  }

  // both marks a period in which two processes would hold.
  #both(lane, at, span, n, text, words) {
    this.#put('grid', `${lane.Name}both${span.Kind}${span.From}${n}`, 'rect', {
      class: 'both', x: span.From * at.k, width: (span.To - span.From) * at.k, y: 0, height: at.bottom,
      'data-kind': 'column', 'data-who': lane.Name, 'data-why': span.Kind,
    });
    const room = last(lane.Faults)?.To === OPEN ? at.label + 70 : at.label;
    text(`bothText${span.Kind}${span.From}${n}`, Math.max(span.From, (room - at.offset) / at.k) + 4 / at.k, at.y + 16, words, 'refusedText');
  }

  // What lies ahead: the deadline of the hold, and the end of the session if the server hears nothing more.
  #ahead(lane, at) {
    const who = lane.Name;
    const name = (key, x, y, words) => {
      if (x > at.width) return; // it is out of the picture
      const left = x + 85 > at.width; // too little space on the other side
      this.#put('front', who + key, 'text', { class: 'aheadText', x: left ? x - 12 : x + 12, y, 'text-anchor': left ? 'end' : 'start' }, words);
    };
    if (lane.Expires > at.now) {
      const x = lane.Expires * at.k + at.offset;
      this.#put('front', who + 'sessionAhead', 'line', { class: 'ahead session', x1: at.nowX, x2: x, y1: at.session + 2, y2: at.session + 2 });
      this.#put('front', who + 'flag', 'path', { class: 'flag', d: `M${x} ${at.session + 5}v-14l9 4l-9 4`, 'data-kind': 'expires', 'data-who': who, 'data-at': lane.Expires });
      name('flagText', x, at.session + 6, 'session ends');
    }
    if (lane.Deadline > at.now) {
      const x = lane.Deadline * at.k + at.offset;
      this.#put('front', who + 'ahead', 'line', { class: `ahead ${lane.State}`, x1: at.nowX, x2: x, y1: at.bar + BAR / 2, y2: at.bar + BAR / 2 });
      this.#put('front', who + 'deadline', 'path', { class: 'deadline', d: diamond(x, at.bar + BAR / 2), 'data-kind': 'deadline', 'data-who': who, 'data-at': lane.Deadline });
      name('deadlineText', x, at.bar + BAR / 2 + 4, 'deadline');
    }
  }

  // put draws or moves one element, identified by a key. Elements that are not put again are removed.
  #put(layer, key, tag, attributes, words) {
    key = layer + key;
    this.#used.add(key);
    let element = this.#pools.get(key);
    if (!element) {
      element = this.#layers[layer].appendChild(document.createElementNS(SVG, tag));
      element.drawn = {};
      this.#pools.set(key, element);
    }
    for (const name in attributes) {
      const value = attributes[name];
      if (element.drawn[name] !== value) element.setAttribute(name, element.drawn[name] = value);
    }
    if (words !== undefined && element.textContent !== words) element.textContent = words;
    return element;
  }
}

const last = (list) => list?.[list.length - 1];
const diamond = (x, y) => `M${x} ${y - 8}l6 8l-6 8l-6 -8z`;

// drawQueue lists the contenders, and draws an arc from each watcher to the node that it watches.
export function drawQueue(box, view) {
  const queue = view.Queue ?? [];
  const text = JSON.stringify(queue.map((c) => [c.Name, c.Node, c.Kind, c.Watches]));
  if (box.drawn === text) return;
  box.drawn = text;
  if (!queue.length) {
    box.innerHTML = '<p>Empty. The lock is free.</p>';
    return;
  }
  const rows = queue.map((c) => {
    const kind = { left: 'until its session ends', waits: 'waits', holds: 'holds', reads: 'holds, reads' }[c.Kind];
    const by = c.Watches?.length ? `, watched by ${c.Watches.join(', ')}` : '';
    return `<li class="${c.Kind}" data-who="${c.Name}" data-kind="${c.Kind}" data-watched="${(c.Watches ?? []).join(' ')}"><b>${c.Name || '?'}</b><code>${c.Node}</code><span>${kind}${by}</span></li>`;
  });
  const arcs = [];
  queue.forEach((c, i) => (c.Watches ?? []).forEach((name) => {
    const j = queue.findIndex((other, at) => other.Name === name && at !== i);
    if (j < 0) return;
    const from = j * 42 + 16, to = i * 42 + 26, bend = Math.min(38, 14 + Math.abs(j - i) * 8);
    arcs.push(`<path d="M44 ${from}C${44 - bend} ${from} ${44 - bend} ${to} 38 ${to}"/><path class="tip" d="M45 ${to}l-8 -4v8z"/>`);
  }));
  box.innerHTML = `<svg height="${queue.length * 42}" aria-hidden="true">${arcs.join('')}</svg><ol>${rows.join('')}</ol>`;
}

// drawStory lists what happened, newest first.
export function drawStory(list, view) {
  const story = view.Story ?? [];
  const lines = story.toReversed();
  const key = story.length ? `${story.length} ${story.at(-1).At} ${story.at(-1).Text}` : '';
  if (list.dataset.drawn === key) return;
  list.dataset.drawn = key;
  list.replaceChildren(...lines.map((line) => {
    const item = document.createElement('li');
    const time = document.createElement('time'), who = document.createElement('b'), what = document.createElement('span');
    time.textContent = (line.At / 1000).toFixed(2) + ' s';
    who.textContent = line.Who;
    what.textContent = line.Text;
    if (/rejects|loses its hold/.test(line.Text)) what.className = 'bad';
    item.append(time, who, what);
    return item;
  }));
}

// verdict reports for a whole scene whether holds that exclude each other ever overlapped: by our rule, and by Curator's if that is drawn.
export function verdict(view, rule) {
  const sum = (spans) => spans.reduce((all, s) => all + ((s.To === OPEN ? view.Now : s.To) - s.From), 0) / 1000;
  const spans = (key) => view.Lanes.flatMap((lane) => lane[key] ?? []);
  const never = {
    semaphore: `Never more than ${view.Limit} leases.`, rwlock: 'Never a writer together with another holder.', election: 'Never two leaders.',
  }[view.Recipe] ?? 'Never two holders.';
  const found = [conflicts(view) ? ['bad', `Two holders for ${sum(spans('Both')).toFixed(1)} s, by hand.`] : ['ok', never]];
  if (rule && ['mutex', 'election'].includes(view.Recipe)) {
    const two = sum(spans('Overlaps'));
    found.push(two > 0 ? ['bad', `Two holders for ${two.toFixed(1)} s by Curator’s rule.`] : ['ok', 'Never two holders by Curator’s rule.']);
  }
  return found;
}

// conflicts reports whether holds that exclude each other overlapped.
function conflicts(view) {
  const holds = view.Lanes.flatMap((lane) => (lane.Spans ?? []).filter((s) => s.Kind !== 'waits'));
  const most = view.Recipe === 'semaphore' ? view.Limit : 1;
  return holds.some((a) => holds.filter((b) => (b.To === OPEN || b.To > a.From) && b.From <= a.From && (a.Kind === 'holds' || b.Kind === 'holds')).length >
    (a.Kind === 'reads' ? 0 : most));
}
