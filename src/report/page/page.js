'use strict';
// Everything that is shown comes from the JSON block of the page, and only ever as text.
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const texts = data.texts;
  const kSeriesColours = 8;
  const kRowsAtFirst = 100;

  const points = data.points.series.map((series, i) => ({
    index: i,
    series: texts[series],
    system: texts[data.points.system[i]],
    backend: texts[data.points.backend[i]],
    mode: texts[data.points.mode[i]],
    parallel: texts[data.points.parallel[i]],
    user: data.points.user[i],
    gpu: data.points.gpu[i],
    ttft: data.points.ttft[i],
    tpot: data.points.tpot[i],
    concurrency: data.points.concurrency[i],
    gpus: data.points.gpus[i],
    picked: data.points.picked[i] === 1,
    facts: new Map(pairs(data.points.facts[i]).map(([name, value]) => [texts[name], texts[value]])),
    command: data.points.command[i].map(word => texts[word]).join(' '),
    phases: data.points.phases[i].map(([name, ...operators]) => ({
      name: texts[name],
      operators: groups(operators, 3).map(([op, ms, bound]) => ({name: texts[op], ms, bound: texts[bound]})),
    })),
  }));
  const seriesNames = [...new Set(points.map(p => p.series))];
  const factNames = [...new Set(points.flatMap(p => [...p.facts.keys()]))];

  const kFilters = [['system', 'System'], ['backend', 'Backend'], ['mode', 'Mode'], ['parallel', 'Parallelism']];
  const state = {
    off: Object.fromEntries(kFilters.map(([key]) => [key, new Set()])),
    onlyFront: false,
    maxTtft: Infinity,
    maxTpot: Infinity,
    chosen: null,
    sort: 'gpu',
    descending: true,
    allRows: false,
    shown: [],
    fronts: new Map(),
    placed: [],
  };

  function groups(list, size) {
    const result = [];
    for (let i = 0; i + size <= list.length; i += size) result.push(list.slice(i, i + size));
    return result;
  }
  function pairs(list) {
    return groups(list, 2);
  }
  function element(name, properties = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (key === 'class') made.className = value;
      else if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
      else made[key] = value;
    }
    made.append(...children.filter(child => child !== null));
    return made;
  }
  function shape(name, attributes, ...children) {
    const made = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  const byId = id => document.getElementById(id);
  const finite = p => Number.isFinite(p.user) && Number.isFinite(p.gpu);
  const colourOf = series => `var(--c${seriesNames.indexOf(series) % kSeriesColours})`;
  const figure = (value, digits) => Number.isFinite(value) ?
      value.toLocaleString('en', {minimumFractionDigits: digits, maximumFractionDigits: digits}) : '–';

  function axis(largest, ticks) {
    if (!(largest > 0)) return {end: 1, step: 1};
    const rough = largest / ticks;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * ([1, 2, 5].find(m => m * unit >= rough * (1 - 1e-9)) ?? 10);
    return {end: step * Math.ceil(largest / step - 1e-9), step};
  }

  // Points that no other point of the same list beats on both figures, by ascending speed per user.
  function front(list) {
    const sorted = [...list].sort((a, b) => b.user - a.user || b.gpu - a.gpu);
    const kept = [];
    let best = -Infinity;
    for (const p of sorted) {
      if (p.gpu > best) {
        kept.push(p);
        best = p.gpu;
      }
    }
    return kept.reverse();
  }

  function apply() {
    const passing = points.filter(p => kFilters.every(([key]) => !state.off[key].has(p[key])) &&
        !(p.ttft > state.maxTtft) && !(p.tpot > state.maxTpot));
    state.fronts = new Map(seriesNames.map(name => [name, front(passing.filter(p => p.series === name && finite(p)))]));
    const onFront = new Set([...state.fronts.values()].flat());
    state.shown = state.onlyFront ? passing.filter(p => p.picked || onFront.has(p)) : passing;
    byId('count').textContent = `${figure(state.shown.length, 0)} of ${figure(points.length, 0)} points`;
    drawChart();
    drawTable();
  }

  // ---- The chart ----

  function outline(p, x, y) {
    if (p.picked) return `M${x} ${y - 8}l8 8l-8 8l-8 -8z`;
    if (p.mode === 'disagg') return `M${x - 3.5} ${y - 3.5}h7v7h-7z`;
    if (p.mode === 'afd') return `M${x} ${y - 5}l5 9h-10z`;
    return `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z`;
  }

  function drawChart() {
    const box = byId('plot');
    const width = Math.max(box.clientWidth, 280);
    const height = Math.round(Math.min(Math.max(width * 0.6, 300), 560));
    const left = 58, right = 12, top = 12, bottom = height - 44;
    const drawn = state.shown.filter(finite);
    const xAxis = axis(Math.max(0, ...drawn.map(p => p.user)), Math.max(3, Math.floor(width / 110)));
    const yAxis = axis(Math.max(0, ...drawn.map(p => p.gpu)), 8);
    const xOf = v => left + v / xAxis.end * (width - left - right);
    const yOf = v => bottom - v / yAxis.end * (bottom - top);
    const svg = shape('svg', {viewBox: `0 0 ${width} ${height}`, height, role: 'img',
      'aria-label': 'Throughput per GPU against speed per user'});
    const tick = value => Number(value.toPrecision(6)).toLocaleString('en');
    for (let v = 0; v <= xAxis.end * (1 + 1e-9); v += xAxis.step) {
      svg.append(shape('line', {class: 'grid', x1: xOf(v), x2: xOf(v), y1: top, y2: bottom}),
        shape('text', {x: xOf(v), y: bottom + 16, 'text-anchor': 'middle'}, tick(v)));
    }
    for (let v = 0; v <= yAxis.end * (1 + 1e-9); v += yAxis.step) {
      svg.append(shape('line', {class: 'grid', x1: left, x2: width - right, y1: yOf(v), y2: yOf(v)}),
        shape('text', {x: left - 6, y: yOf(v) + 4, 'text-anchor': 'end'}, tick(v)));
    }
    svg.append(shape('text', {x: (left + width - right) / 2, y: height - 8, 'text-anchor': 'middle'},
      'tokens/s per user (faster for each user →)'),
    shape('text', {'text-anchor': 'middle', transform: `translate(12 ${(top + bottom) / 2}) rotate(-90)`},
      'tokens/s per GPU (cheaper →)'));
    if (data.target > 0 && 1000 / data.target <= xAxis.end) {
      const x = xOf(1000 / data.target);
      svg.append(shape('line', {class: 'limit', x1: x, x2: x, y1: top, y2: bottom}),
        shape('text', {x: x + 4, y: top + 12}, `TPOT ${data.target} ms`));
    }
    for (const [name, list] of state.fronts) {
      svg.append(shape('polyline', {class: 'front', style: `stroke: ${colourOf(name)}`,
        points: list.map(p => `${xOf(p.user).toFixed(1)},${yOf(p.gpu).toFixed(1)}`).join(' ')}));
    }
    state.placed = [];
    for (const p of [...drawn].sort((a, b) => a.picked - b.picked)) {
      const x = Number(xOf(p.user).toFixed(1)), y = Number(yOf(p.gpu).toFixed(1));
      state.placed.push({p, x, y});
      svg.append(shape('path', {'class': `point${p.picked ? ' picked' : ''}${p === state.chosen ? ' chosen' : ''}`,
        'data-i': p.index, style: `fill: ${colourOf(p.series)}`, d: outline(p, x, y)}));
    }
    svg.addEventListener('pointermove', event => hover(event, svg, width));
    svg.addEventListener('pointerleave', () => { byId('tip').hidden = true; });
    svg.addEventListener('click', event => {
      const hit = nearest(event, svg, width);
      if (hit) choose(hit.p);
    });
    box.replaceChildren(svg);
  }

  function nearest(event, svg, width) {
    const frame = svg.getBoundingClientRect();
    const scale = width / frame.width;
    const x = (event.clientX - frame.left) * scale, y = (event.clientY - frame.top) * scale;
    let best = null, bestDistance = 24 * 24;
    for (const spot of state.placed) {
      const distance = (spot.x - x) ** 2 + (spot.y - y) ** 2 - (spot.p.picked ? 20 : 0);
      if (distance < bestDistance) {
        best = spot;
        bestDistance = distance;
      }
    }
    return best;
  }

  function hover(event, svg, width) {
    const tip = byId('tip');
    const hit = nearest(event, svg, width);
    tip.hidden = hit === null;
    if (hit === null) return;
    const p = hit.p;
    tip.replaceChildren(element('b', {}, p.series), element('dl', {}, ...figuresOf(p, false)));
    const frame = byId('plot').getBoundingClientRect();
    const scale = frame.width / width;
    const x = hit.x * scale, y = hit.y * scale;
    tip.style.left = `${Math.max(0, x + 14 + tip.offsetWidth > frame.width ? x - 14 - tip.offsetWidth : x + 14)}px`;
    tip.style.top = `${Math.max(0, Math.min(y - 20, frame.height - tip.offsetHeight))}px`;
  }

  // ---- One point ----

  function figuresOf(p, all) {
    const rows = [
      ['layout', p.parallel], ['mode', `${p.mode}, ${p.backend} on ${p.system}`], ['GPUs', figure(p.gpus, 0)],
      ['tokens/s/user', figure(p.user, 2)], ['tokens/s/GPU', figure(p.gpu, 2)], ['TTFT', `${figure(p.ttft, 1)} ms`],
      ['TPOT', `${figure(p.tpot, 2)} ms`], ['concurrency', figure(p.concurrency, 0)],
    ];
    if (all) rows.push(...p.facts);
    return rows.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]);
  }

  function choose(p) {
    state.chosen = p;
    const detail = byId('detail');
    const nodes = [
      element('h2', {}, `${p.picked ? '◆ ' : ''}${p.series}: ${p.parallel}`),
      element('dl', {}, ...figuresOf(p, true)),
    ];
    if (p.command !== '') {
      nodes.push(element('h3', {}, 'Command'), element('pre', {id: 'command'}, p.command), copyButton(p, 'Copy command'));
    }
    for (const phase of p.phases) {
      const total = phase.operators.reduce((sum, op) => sum + op.ms, 0);
      nodes.push(element('h3', {}, `${phase.name}: ${figure(total, 3)} ms`));
      for (const op of [...phase.operators].sort((a, b) => b.ms - a.ms)) {
        const share = total > 0 ? op.ms / total * 100 : 0;
        const fill = element('i');
        fill.style.width = `${share}%`;
        nodes.push(element('div', {class: 'bar', title: op.bound === '' ? op.name : `${op.name}: ${op.bound}`}, fill,
          element('span', {}, op.name), element('b', {}, `${figure(op.ms, 3)} ms  ${figure(share, 1)}%`),
          op.bound === '' ? null : element('small', {}, op.bound)));
      }
    }
    if (p.phases.length === 0) {
      nodes.push(element('p', {class: 'soft'}, 'The breakdown by operator is kept for points of the fronts only.'));
    }
    detail.replaceChildren(...nodes);
    for (const mark of document.querySelectorAll('.chosen')) mark.classList.remove('chosen');
    for (const mark of document.querySelectorAll(`[data-i="${p.index}"]`)) mark.classList.add('chosen');
  }

  function copyButton(p, label) {
    return element('button', {type: 'button', title: p.command, onclick: async event => {
      event.stopPropagation();
      const button = event.currentTarget;
      let done = false;
      try {
        await navigator.clipboard.writeText(p.command);
        done = true;
      } catch {
        // Pages from disk may not have the clipboard: the old way.
        const area = element('textarea', {value: p.command});
        document.body.append(area);
        area.select();
        done = document.execCommand('copy');
        area.remove();
      }
      button.textContent = done ? 'Copied' : 'Select and copy it by hand';
      setTimeout(() => { button.textContent = label; }, 1500);
    }}, label);
  }

  // ---- The table ----

  const columns = [
    {key: 'series', name: 'Series', text: true}, {key: 'parallel', name: 'Layout', text: true},
    {key: 'gpus', name: 'GPUs', digits: 0}, {key: 'gpu', name: 'tokens/s/GPU', digits: 2},
    {key: 'user', name: 'tokens/s/user', digits: 2}, {key: 'ttft', name: 'TTFT ms', digits: 1},
    {key: 'tpot', name: 'TPOT ms', digits: 2}, {key: 'concurrency', name: 'Concurrency', digits: 0},
    ...factNames.map(name => ({key: `fact ${name}`, name, fact: name})),
  ];
  const valueOf = (p, column) => column.fact === undefined ? p[column.key] : p.facts.get(column.fact) ?? '';

  function compare(a, b, column) {
    const left = valueOf(a, column), right = valueOf(b, column);
    if (column.fact !== undefined) {
      const x = parseFloat(left.replace(/[^0-9.eE-]/g, '')), y = parseFloat(right.replace(/[^0-9.eE-]/g, ''));
      if (Number.isFinite(x) && Number.isFinite(y)) return x - y;
      if (Number.isFinite(x) !== Number.isFinite(y)) return Number.isFinite(x) ? 1 : -1;
    }
    if (typeof left === 'string') return left.localeCompare(right, 'en', {numeric: true});
    return (left ?? -Infinity) - (right ?? -Infinity);
  }

  function drawTable() {
    const sorted = [...state.shown];
    const by = columns.find(column => column.key === state.sort);
    sorted.sort((a, b) => (state.descending ? -1 : 1) * compare(a, b, by) || a.index - b.index);
    const rows = state.allRows ? sorted : sorted.slice(0, kRowsAtFirst);
    byId('head').replaceChildren(...columns.map(column => {
      const on = column.key === state.sort;
      const cell = element('th', {class: column.text ? 'text' : ''}, element('button', {type: 'button', onclick: () => {
        state.descending = on ? !state.descending : !column.text;
        state.sort = column.key;
        drawTable();
      }}, `${column.name}${on ? (state.descending ? ' ▼' : ' ▲') : ''}`));
      cell.setAttribute('aria-sort', on ? (state.descending ? 'descending' : 'ascending') : 'none');
      return cell;
    }), element('th'));
    byId('rows').replaceChildren(...rows.map(p => {
      const row = element('tr', {tabIndex: 0, onclick: () => choose(p), onkeydown: event => {
        if (event.key === 'Enter' && event.target === event.currentTarget) choose(p);
      }}, ...columns.map(column => {
        const value = valueOf(p, column);
        const shown = typeof value === 'string' ? value : figure(value, column.digits);
        return element('td', {class: column.text ? 'text' : '', title: column.text ? shown : ''},
          column.key === 'series' && p.picked ? `◆ ${shown}` : shown);
      }), element('td', {}, p.command === '' ? '' : copyButton(p, 'copy')));
      row.dataset.i = p.index;
      if (p === state.chosen) row.classList.add('chosen');
      return row;
    }));
    const more = byId('more');
    more.hidden = rows.length === sorted.length;
    more.textContent = `Show all ${figure(sorted.length, 0)} rows`;
  }

  // ---- Filters ----

  function filterBox(key, title) {
    const values = [...new Set(points.map(p => p[key]))].sort((a, b) => a.localeCompare(b, 'en', {numeric: true}));
    if (key === 'system' && values.length < 2) return null;
    const boxes = values.map(value => element('label', {}, element('input', {type: 'checkbox', checked: true,
      onchange: event => {
        if (event.target.checked) state.off[key].delete(value);
        else state.off[key].add(value);
        apply();
      }}), value));
    if (key !== 'parallel') {
      const set = element('fieldset', {}, element('legend', {}, title), ...boxes);
      set.dataset.filter = key;
      return set;
    }
    const setAll = on => {
      state.off[key] = new Set(on ? [] : values);
      for (const box of boxes) box.querySelector('input').checked = on;
      apply();
    };
    const set = element('details', {}, element('summary', {}, `${title} (${values.length})`),
      element('div', {class: 'layouts'}, ...boxes),
      element('button', {type: 'button', onclick: () => setAll(true)}, 'all'), ' ',
      element('button', {type: 'button', onclick: () => setAll(false)}, 'none'));
    set.dataset.filter = key;
    return set;
  }

  function limitBox(key, title) {
    return element('label', {}, title, element('input', {type: 'number', min: 0, placeholder: 'any', oninput: event => {
      const value = parseFloat(event.target.value);
      state[key] = Number.isFinite(value) ? value : Infinity;
      apply();
    }}), 'ms');
  }

  byId('title').textContent = data.title;
  document.title = data.title;
  byId('subtitle').textContent = data.subtitle;
  byId('notes').append(...data.notes.map(note => element('p', {class: 'soft'}, note)));
  byId('filters').append(...kFilters.map(([key, title]) => filterBox(key, title)).filter(box => box !== null),
    element('fieldset', {}, element('legend', {}, 'Limits'), limitBox('maxTtft', 'TTFT ≤'), limitBox('maxTpot', 'TPOT ≤')),
    element('fieldset', {}, element('legend', {}, 'Show'), element('label', {}, element('input', {type: 'checkbox',
      onchange: event => {
        state.onlyFront = event.target.checked;
        apply();
      }}), 'only fronts and picks')));
  byId('legend').append(...seriesNames.map(name => {
    const swatch = element('i', {class: 'swatch'});
    swatch.style.background = colourOf(name);
    return element('span', {}, swatch, name);
  }), element('span', {}, '● agg  ■ disagg  ▲ afd  ◆ picked'));
  byId('more').addEventListener('click', () => {
    state.allRows = true;
    drawTable();
  });
  let redraw = 0;
  addEventListener('resize', () => {
    cancelAnimationFrame(redraw);
    redraw = requestAnimationFrame(drawChart);
  });
  apply();
  const first = points.find(p => p.picked) ?? points[0];
  if (first !== undefined) choose(first);
  document.documentElement.dataset.ready = String(points.length);
})();
