"use strict";
// Draws the figures of the page from the JSON and the numbers in it. Text is only ever set as text, never as HTML.

const RED_BLUE = ["#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d", "#b2182b", "#67001f"];
const ON_DARK = ["#c6e2ff", "#7db9f2", "#3f86cf", "#275a94", "#1d3654", "#1e1f24", "#4d2a22", "#8a3d27", "#cf5f38", "#f29a74", "#ffd9c4"];
const NOT_A_NUMBER = -32768;
const root = document.documentElement;
const page = JSON.parse(document.getElementById("data").textContent);
const readout = document.getElementById("readout");
const drawn = [];

/** An element with a class, text and children. */
function make(tag, name = "", text = "", ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text) element.textContent = text;
  element.append(...children);
  return element;
}

function svg(tag, attributes = {}, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  return element;
}

function number(value) {
  if (!Number.isFinite(value)) return "not a number";
  const size = Math.abs(value);
  const text = size && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
  return text.replace("-", "−");
}

// ---- numbers: 16 bits each, and a scale for each map ----

async function decode(text) {
  const packed = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new DataView(await new Response(stream).arrayBuffer());
}

// ---- colours ----

function palette() {
  const stops = (root.dataset.theme === "dark" ? ON_DARK : RED_BLUE).map((c) => [1, 3, 5].map((at) => parseInt(c.slice(at, at + 2), 16)));
  const table = new Uint8Array(3 * 511);
  for (let i = 0; i < 511; i++) {
    const place = (i / 510) * (stops.length - 1), below = Math.min(Math.floor(place), stops.length - 2);
    for (let c = 0; c < 3; c++) table[3 * i + c] = Math.round(stops[below][c] + (place - below) * (stops[below + 1][c] - stops[below][c]));
  }
  return table;
}

function colourBar(limit, label) {
  const canvas = make("canvas");
  const bar = make("div", "colours", "", make("span", "", number(-limit)), canvas, make("span", "", number(limit)), make("span", "", label));
  bar.redraw = () => {
    const table = palette();
    [canvas.width, canvas.height] = [511, 1];
    const image = canvas.getContext("2d").createImageData(511, 1);
    for (let i = 0; i < 511; i++) image.data.set([table[3 * i], table[3 * i + 1], table[3 * i + 2], 255], 4 * i);
    canvas.getContext("2d").putImageData(image, 0, 0);
  };
  drawn.push(bar);
  return bar;
}

// ---- heat maps ----

/** One matrix on a canvas. Where [CLS] is untied its row and column are drawn apart, and wider. */
class Heat {
  constructor(canvas, values, margin = 0) {
    Object.assign(this, { canvas, values, margin, under: margin ? 38 : 0, cell: null, theme: "" });
  }

  show(figure, panel, map) {
    Object.assign(this, { figure, panel, map, theme: "" });
    const wide = panel.reset ? Math.max(1, map.rows / 16) : 1;
    this.first = wide;
    this.gap = panel.reset ? wide / 3 : 0;
    this.across = map.columns - 1 + wide + this.gap;
    this.down = map.rows - 1 + wide + this.gap;
    this.canvas.setAttribute("aria-label", `${map.title}${map.said ? ", " + map.said : ""}; ${figure.title} of ${panel.name}`);
  }

  value(row, column) {
    const raw = this.values.getInt16(this.map.at + 2 * (row * this.map.columns + column), true);
    return raw === NOT_A_NUMBER ? NaN : raw * this.map.scale;
  }

  /** Where position i begins and how wide it is, in positions. */
  place(i) {
    return i === 0 ? [0, this.first] : [this.first + this.gap + i - 1, 1];
  }

  at(x, y) {
    const inside = (along, units, count) => {
      const place = along * units;
      return place < this.first + this.gap / 2 ? 0 : Math.min(count - 1, Math.max(1, Math.floor(place - this.first - this.gap) + 1));
    };
    const box = this.canvas.getBoundingClientRect(), left = this.margin, size = box.width - left;
    const [u, v] = [(x - box.left - left) / size, (y - box.top) / (box.height - this.under)];
    if (u < 0 || v < 0 || u >= 1 || v >= 1) return null;
    return [inside(v, this.down, this.map.rows), inside(u, this.across, this.map.columns)];
  }

  /** Middle of a cell on the screen. */
  middle([row, column]) {
    const box = this.canvas.getBoundingClientRect(), size = (box.width - this.margin) / this.across;
    const [[x, w], [y, h]] = [this.place(column), this.place(row)];
    return [box.left + this.margin + (x + w / 2) * size, box.top + (y + h / 2) * size];
  }

  picture() {
    if (this.theme === root.dataset.theme) return this.image;
    const { rows, columns } = this.map, table = palette();
    this.image = document.createElement("canvas");
    [this.image.width, this.image.height] = [columns, rows];
    const context = this.image.getContext("2d"), pixels = context.createImageData(columns, rows);
    for (let i = 0; i < rows * columns; i++) {
      const value = this.value(Math.floor(i / columns), i % columns);
      const colour = Math.round(255 * Math.max(-1, Math.min(1, value / (this.figure.limit || this.panel.limit)))) + 255;
      if (Number.isNaN(value)) pixels.data.set([128, 128, 128, 255], 4 * i);
      else pixels.data.set([table[3 * colour], table[3 * colour + 1], table[3 * colour + 2], 255], 4 * i);
    }
    context.putImageData(pixels, 0, 0);
    this.theme = root.dataset.theme;
    return this.image;
  }

  redraw() {
    const canvas = this.canvas, width = canvas.clientWidth;
    if (!width || !this.map) return;
    const ratio = Math.max(window.devicePixelRatio || 1, 2), left = this.margin;
    const size = (width - left) / this.across, height = size * this.down;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round((height + this.under) * ratio)];
    const context = canvas.getContext("2d"), { rows, columns } = this.map, image = this.picture();
    context.scale(ratio, ratio);
    context.translate(left, 0);
    context.imageSmoothingEnabled = size < 1;
    const parts = this.panel.reset ? [[0, 1], [1, -1]] : [[0, -1]];
    for (const [row, tall] of parts) {
      for (const [column, wide] of parts) {
        const [w, h] = [wide < 0 ? columns - column : 1, tall < 0 ? rows - row : 1];
        const [[x, first], [y, top]] = [this.place(column), this.place(row)];
        context.drawImage(image, column, row, w, h, x * size, y * size, (w === 1 ? first : w) * size, (h === 1 ? top : h) * size);
      }
    }
    if (left) this.ticks(context, size, width - left, height);
    if (this.cell) {
      const [[x, w], [y, h]] = [this.place(this.cell[1]), this.place(this.cell[0])];
      const grow = Math.max(0, 5 - size) / 2;
      const [outer, inner] = root.dataset.theme === "dark" ? ["#fff", "#000"] : ["#000", "#fff"];
      for (const [lineWidth, strokeStyle] of [[3, outer], [1, inner]]) {
        Object.assign(context, { lineWidth, strokeStyle });
        context.strokeRect(x * size - grow, y * size - grow, w * size + 2 * grow, h * size + 2 * grow);
      }
    }
  }

  ticks(context, size, width, height) {
    const quiet = getComputedStyle(root).getPropertyValue("--quiet");
    const step = nice(Math.max(this.map.rows, this.map.columns), 6).find((tick) => tick >= 1) || 1;
    context.fillStyle = quiet;
    context.font = "12px system-ui, sans-serif";
    const label = (i) => (i === 0 && this.panel.reset ? "[CLS]" : String(i));
    for (const [count, down] of [[this.map.columns, false], [this.map.rows, true]]) {
      for (let i = 0; i < count; i += step) {
        const [at, thick] = this.place(i), middle = (at + thick / 2) * size;
        context.textAlign = down ? "right" : "center";
        context.textBaseline = down ? "middle" : "top";
        if (down) context.fillText(label(i), -6, Math.max(7, middle));
        else context.fillText(label(i), Math.max(i ? 0 : 10, middle), height + 6);
      }
    }
    context.textAlign = "center";
    context.fillText(this.figure.axes[0], width / 2, height + 24);
    context.save();
    context.translate(-38, height / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(this.figure.axes[1], 0, -6);
    context.restore();
  }

  words([row, column]) {
    const name = (i) => (i === 0 && this.figure.cls ? "0 [CLS]" : String(i));
    const [key, query] = this.figure.axes;
    return `${query} ${name(row)}, ${key} ${name(column)}: ${number(this.value(row, column))}`;
  }

  /** The cell that an arrow key leads to; null for another key. */
  moved(event) {
    const [row, column] = this.cell || [0, 0], { rows, columns } = this.map, far = event.shiftKey ? 10 : 1;
    const to = {
      ArrowLeft: [row, column - far], ArrowRight: [row, column + far], ArrowUp: [row - far, column],
      ArrowDown: [row + far, column], Home: [row, 0], End: [row, columns - 1],
    }[event.key];
    if (!to) return null;
    if (!this.cell) return [0, 0];
    return [Math.max(0, Math.min(rows - 1, to[0])), Math.max(0, Math.min(columns - 1, to[1]))];
  }
}

function say(lines, x, y) {
  readout.replaceChildren(...lines.flatMap((line, i) => (i ? [make("br"), line] : [make("strong", "", line)])));
  readout.hidden = false;
  const box = readout.getBoundingClientRect();
  readout.style.left = `${Math.max(8, Math.min(innerWidth - box.width - 8, x + 14))}px`;
  readout.style.top = `${y + 18 + box.height > innerHeight ? Math.max(8, y - box.height - 14) : y + 18}px`;
}

function quiet() {
  readout.hidden = true;
}

function tile(figure, panel, map, index, values, tiles) {
  const canvas = make("canvas");
  canvas.tabIndex = index ? -1 : 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-roledescription", "heat map");
  canvas.setAttribute("aria-describedby", "keys");
  const heat = new Heat(canvas, values);
  heat.show(figure, panel, map);
  const point = (cell, x, y) => {
    heat.cell = cell;
    heat.redraw();
    if (cell) say([map.title, heat.words(cell)], x, y);
    else quiet();
  };
  for (const kind of ["pointermove", "pointerdown"]) {
    canvas.addEventListener(kind, (event) => point(heat.at(event.clientX, event.clientY), event.clientX, event.clientY));
  }
  for (const kind of ["pointerleave", "blur"]) canvas.addEventListener(kind, () => point(null));
  canvas.addEventListener("click", () => enlarge(tiles, index));
  canvas.addEventListener("keydown", (event) => {
    const cell = heat.moved(event);
    const next = { PageUp: index - 1, PageDown: index + 1 }[event.key];
    if (cell) point(cell, ...heat.middle(cell));
    else if (event.key === "Enter" || event.key === " ") enlarge(tiles, index);
    else if (event.key === "Escape") point(null);
    else if (next !== undefined && tiles[next]) {
      canvas.tabIndex = -1;
      tiles[next].canvas.tabIndex = 0;
      tiles[next].canvas.focus();
    } else if (next === undefined) return;
    event.preventDefault();
  });
  tiles.push(heat);
  drawn.push(heat);
  return make("figure", "", "", canvas, make("figcaption", "", map.title, ...(map.said ? [make("br"), make("span", "", map.said)] : [])));
}

// ---- one map, enlarged ----

const dialog = document.getElementById("large");
const large = new Heat(document.getElementById("large-map"), null, 48);
let shown = { tiles: [], index: 0 };

function enlarge(tiles, index) {
  const heat = tiles[index], cell = heat.cell; // which the map forgets when the focus leaves it
  shown = { tiles, index };
  large.values = heat.values;
  large.show(heat.figure, heat.panel, heat.map);
  document.getElementById("large-title").textContent = [heat.panel.name, heat.map.title, heat.map.said].filter(Boolean).join(" · ");
  document.getElementById("before").disabled = index === 0;
  document.getElementById("after").disabled = index === tiles.length - 1;
  quiet();
  if (!dialog.open) dialog.showModal();
  pointLarge(cell);
  large.canvas.focus();
}

function pointLarge(cell) {
  large.cell = cell;
  large.redraw();
  document.getElementById("large-value").textContent = cell ? large.words(cell) : `${large.figure.label}; point at a cell, or use the arrow keys`;
}

function turn(by) {
  if (shown.tiles[shown.index + by]) {
    shown.tiles[shown.index + by].cell = large.cell;
    enlarge(shown.tiles, shown.index + by);
  }
}

for (const kind of ["pointermove", "pointerdown"]) {
  large.canvas.addEventListener(kind, (event) => {
    const cell = large.at(event.clientX, event.clientY);
    if (cell) pointLarge(cell);
  });
}
dialog.addEventListener("keydown", (event) => {
  const cell = event.target === large.canvas && large.moved(event);
  if (cell) pointLarge(cell);
  else if (event.key === "PageUp") turn(-1);
  else if (event.key === "PageDown") turn(1);
  else return;
  event.preventDefault();
});
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
dialog.addEventListener("close", () => {
  const heat = shown.tiles[shown.index];
  for (const other of shown.tiles) {
    other.cell = null;
    other.canvas.tabIndex = other === heat ? 0 : -1;
    other.redraw();
  }
  heat.canvas.focus();
});
document.getElementById("close").addEventListener("click", () => dialog.close());
document.getElementById("before").addEventListener("click", () => turn(-1));
document.getElementById("after").addEventListener("click", () => turn(1));

// ---- curves ----

function nice(span, count) {
  const rough = span / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((by) => by * power).filter((step) => step >= rough * 0.999);
}

function ticks(low, high, count) {
  const step = nice(high - low, count)[0], found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
  return found;
}

function chart(figure) {
  const picture = svg("svg", { tabindex: 0, role: "application", "aria-roledescription": "curves", "aria-describedby": "keys", "aria-label": `${figure.title}: ${figure.lines.map((line) => line.name).join(", ")}` });
  const legend = make("ul", "legend");
  figure.lines.forEach((line, i) => {
    const sample = svg("svg", { viewBox: "0 0 28 12", "aria-hidden": "true" });
    sample.append(svg("path", { d: "M0 6H28", class: `line line${i % 6}` }));
    legend.append(make("li", "", "", sample, line.said ? `${line.name}: ${line.said}` : line.name));
  });
  const state = { line: 0, point: -1 };
  let points = [];

  const redraw = () => {
    const width = printing ? 640 : Math.max(280, picture.parentElement.clientWidth - 36), height = Math.max(220, Math.min(400, width * 0.5));
    const left = 56, right = 12, top = 10, bottom = 44;
    const of = (name) => figure.lines.flatMap((line) => line[name] || []);
    const xs = of("x"), ys = [...of("y"), ...of("low"), ...of("high"), ...figure.limits];
    let [x0, x1, y0, y1] = [figure.from_zero ? 0 : Math.min(...xs), Math.max(...xs), figure.y_from_zero ? 0 : Math.min(...ys), Math.max(...ys)];
    if (x0 === x1) [x0, x1] = [x0 - 1, x1 + 1];
    const room = (y1 - y0) * 0.06 || 1;
    y1 += room;
    if (!figure.y_from_zero) y0 -= room;
    const x = (value) => left + ((value - x0) / (x1 - x0)) * (width - left - right);
    const y = (value) => height - bottom - ((value - y0) / (y1 - y0)) * (height - top - bottom);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.replaceChildren();
    for (const tick of ticks(x0, x1, width / 110).filter(Number.isInteger)) {
      picture.append(svg("line", { class: "axis", x1: x(tick), x2: x(tick), y1: top, y2: height - bottom }));
      picture.append(svg("text", { x: x(tick), y: height - bottom + 18, "text-anchor": "middle" }, number(tick)));
    }
    for (const tick of ticks(y0, y1, height / 60)) {
      picture.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }));
      picture.append(svg("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, number(tick)));
    }
    picture.append(svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, figure.x));
    picture.append(svg("text", { transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, figure.y));
    for (const limit of figure.limits) picture.append(svg("line", { class: "limit", x1: left, x2: width - right, y1: y(limit), y2: y(limit) }));
    points = figure.lines.map((line, i) => {
      const places = line.x.map((value, k) => [x(value), y(line.y[k])]);
      const path = (pairs) => pairs.map((pair, k) => `${k ? "L" : "M"}${pair[0].toFixed(1)} ${pair[1].toFixed(1)}`).join("");
      const group = svg("g", { class: `line${i % 6}` });
      if (line.low) {
        const [high, low] = [line.high, line.low].map((side) => line.x.map((value, k) => [x(value), y(side[k])]));
        group.append(svg("path", { class: "band", d: `${path([...high, ...low.reverse()])}Z` }));
      }
      group.append(svg("path", { class: "line", d: path(places) }));
      if (places.length <= 40) for (const [px, py] of places) group.append(svg("circle", { class: "dot", cx: px, cy: py, r: 3 }));
      picture.append(group);
      return places;
    });
    picture.append(svg("circle", { class: "cursor", r: 6, visibility: "hidden" }));
    if (state.point >= 0) point(state.line, state.point, false);
  };

  const point = (line, at, aloud = true) => {
    Object.assign(state, { line, point: at });
    const cursor = picture.querySelector(".cursor");
    cursor.setAttribute("visibility", at < 0 ? "hidden" : "visible");
    if (at < 0) return quiet();
    const [px, py] = points[line][at], box = picture.getBoundingClientRect(), scale = box.width / picture.viewBox.baseVal.width;
    cursor.setAttribute("cx", px);
    cursor.setAttribute("cy", py);
    const { name, x, y } = figure.lines[line];
    if (aloud) say([name, `${figure.x} ${number(x[at])}: ${number(y[at])}`], box.left + px * scale, box.top + py * scale);
  };
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect(), scale = box.width / picture.viewBox.baseVal.width;
    const [px, py] = [(event.clientX - box.left) / scale, (event.clientY - box.top) / scale];
    let best = [Infinity, 0, -1];
    points.forEach((places, line) => places.forEach(([x, y], at) => {
      const distance = (x - px) ** 2 + (y - py) ** 2;
      if (distance < best[0]) best = [distance, line, at];
    }));
    if (best[2] >= 0) point(best[1], best[2]);
  });
  for (const kind of ["pointerleave", "blur"]) picture.addEventListener(kind, () => point(state.line, -1));
  picture.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    const count = figure.lines.length, line = (state.line + move[0] + count) % count, last = figure.lines[line].x.length - 1;
    point(line, Math.max(0, Math.min(last, state.point + (state.point < 0 ? 1 : move[1]))));
  });
  drawn.push({ redraw });
  return make("div", "panel chart", "", picture, legend);
}

// ---- the page ----

function section(figure, values) {
  const element = make("section", "", "", make("h2", "", figure.title), make("p", "quiet", figure.text));
  element.id = figure.id;
  const link = make("a", "", figure.title);
  link.href = `#${figure.id}`;
  document.getElementById("contents").append(link);
  if (figure.lines) {
    element.append(chart(figure));
    return element;
  }
  const shown = figure.panels.filter((panel) => panel.maps).length;
  if (!shown && new Set(figure.panels.map((panel) => panel.note)).size === 1) {
    element.append(make("p", "note", figure.panels[0].note));
    return element;
  }
  if (shown && figure.limit) element.append(colourBar(figure.limit, figure.label));
  const panels = make("div", shown > 1 ? "panels" : "panels alone");
  for (const panel of figure.panels) {
    const box = make("div", "panel", "", make("h3", "", panel.name));
    if (panel.note) box.append(make("p", "note", panel.note));
    if (panel.said) box.append(make("p", "said", panel.said));
    if (panel.maps) {
      const tiles = [];
      if (!figure.limit) box.append(colourBar(panel.limit, figure.label));
      const kind = panel.maps[0].rows <= 4 ? "small" : figure.pairs ? "pairs" : panel.maps.length <= 4 ? "few" : "";
      box.append(make("div", `maps ${kind}`, "", ...panel.maps.map((map, i) => tile(figure, panel, map, i, values, tiles))));
    }
    panels.append(box);
  }
  element.append(panels);
  return element;
}

function redraw() {
  for (const one of drawn) one.redraw();
  if (dialog.open) large.redraw();
}

let printing = false;
const theme = document.getElementById("theme"), dark = matchMedia("(prefers-color-scheme: dark)");
function paint(name) {
  root.dataset.theme = name;
  theme.textContent = name === "dark" ? "Light" : "Dark";
  redraw();
}
theme.hidden = false;
theme.addEventListener("click", () => paint(root.dataset.theme === "dark" ? "light" : "dark"));
dark.addEventListener("change", () => paint(dark.matches ? "dark" : "light"));
addEventListener("beforeprint", () => {
  root.dataset.before = root.dataset.theme;
  printing = true;
  paint("light");
});
addEventListener("afterprint", () => {
  printing = false;
  paint(root.dataset.before);
});

async function start() {
  root.dataset.theme = dark.matches ? "dark" : "light";
  const figures = document.getElementById("figures");
  try {
    const values = await decode(document.getElementById("values").textContent);
    figures.append(...page.figures.map((figure) => section(figure, values)));
    paint(root.dataset.theme);
    new ResizeObserver(redraw).observe(figures);
  } catch (error) {
    figures.append(make("p", "note", "The figures need a browser of 2023 or later."));
    throw error;
  }
  root.dataset.ready = "yes";
}
start();
