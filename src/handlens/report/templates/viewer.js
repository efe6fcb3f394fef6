"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const make = (name, parts = {}, ...children) => {
    const made = Object.assign(document.createElement(name), parts);
    made.append(...children);
    return made;
  };
  const SVG = "http://www.w3.org/2000/svg";
  const draw = (name, values) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
    return made;
  };
  const number = (value) => (typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(4) : String(value));

  // --- cards: filter and order -------------------------------------------------------------------------------------

  // They come in groups, each laid out only when it is near the screen; cards that are shown fill the first groups.
  const list = find("cards");
  const groups = list ? [...list.children] : [];
  const cards = list ? [...list.querySelectorAll(".card")] : [];
  const size = groups.length ? groups[0].children.length : 0;
  const shown = () => cards.filter((card) => !card.hidden);
  const arrange = () => {
    const all = [...shown(), ...cards.filter((card) => card.hidden)];
    groups.forEach((group, place) => {
      const mine = all.slice(place * size, (place + 1) * size);
      group.hidden = mine[0].hidden;
      group.append(...mine);
    });
  };
  const compare = {
    given: (a, b) => a.dataset.given - b.dataset.given,
    name: (a, b) => a.dataset.name.localeCompare(b.dataset.name, undefined, { numeric: true }),
    worst: (a, b) => a.dataset.value - b.dataset.value || compare.given(a, b),
    best: (a, b) => b.dataset.value - a.dataset.value || compare.given(a, b),
  };
  const filter = () => {
    const words = find("find").value.trim().toLowerCase();
    const tag = find("show").value;
    for (const card of cards) {
      const named = card.dataset.name.toLowerCase().includes(words);
      card.hidden = !named || (tag !== "" && !card.dataset.tags.split("\n").includes(tag));
    }
    arrange();
    const count = shown().length;
    find("count").textContent = count === cards.length ? "" : `${count} of ${cards.length}`;
  };
  const sort = () => { cards.sort(compare[find("order").value]); arrange(); };

  // --- viewer: layers over each other, moved and scaled together ------------------------------------------------------

  const dialog = find("viewer"), stage = find("stage"), world = find("world"), side = find("side");
  const view = { x: 0, y: 0, scale: 1, width: 1, height: 1 };
  let layers = [], current = null, box = null;

  const place = () => {
    world.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.scale})`;
    world.style.setProperty("--zoom", view.scale);
    world.classList.toggle("close", view.scale > 3);
    for (const layer of layers) if (layer.levels) showTiles(layer); else if (layer.sizes) showSize(layer);
  };
  const fit = (area = null) => {
    const [top, left, bottom, right] = area || [0, 0, view.height, view.width];
    const margin = area ? 0.35 : 0;
    const wide = (right - left) * (1 + 2 * margin) || 1, high = (bottom - top) * (1 + 2 * margin) || 1;
    view.scale = Math.min(stage.clientWidth / wide, stage.clientHeight / high, area ? 12 : Infinity);
    view.x = stage.clientWidth / 2 - ((left + right) / 2) * view.scale;
    view.y = stage.clientHeight / 2 - ((top + bottom) / 2) * view.scale;
    place();
  };
  const zoom = (factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) => {
    const before = view.scale;
    view.scale = Math.min(64, Math.max(0.01, view.scale * factor));
    view.x = x - ((x - view.x) * view.scale) / before;
    view.y = y - ((y - view.y) * view.scale) / before;
    place();
  };
  const move = (x, y) => { view.x += x; view.y += y; place(); };

  const showTiles = (layer) => {
    const stretch = view.width / layer.width;
    const fine = view.scale * stretch * (window.devicePixelRatio || 1);
    const level = Math.max(0, Math.min(layer.levels.length - 1, Math.floor(Math.log2(1 / fine) + 0.25)));
    const { columns, rows, there } = layer.levels[level];
    const side = layer.tile * 2 ** level * stretch;
    const first = (origin) => Math.floor(-origin / view.scale / side);
    const last = (origin, size) => Math.floor((size - origin) / view.scale / side);
    const wanted = new Map();
    for (let row = Math.max(0, first(view.y)); row <= Math.min(rows - 1, last(view.y, stage.clientHeight)); row++)
      for (let column = Math.max(0, first(view.x)); column <= Math.min(columns - 1, last(view.x, stage.clientWidth)); column++)
        if (there[row * columns + column] === "1") wanted.set(`${level}-${column}-${row}`, [column, row]);
    for (const [name, image] of layer.tiles)
      if (!wanted.has(name) && (layer.tiles.size > 300 || name.split("-")[0] !== String(level))) {
        if (!layer.loading) { image.remove(); layer.tiles.delete(name); }
      }
    for (const [name, [column, row]] of wanted) {
      if (layer.tiles.has(name)) continue;
      const image = make("img", { alt: "", draggable: false });
      layer.loading += 1;
      image.onload = image.onerror = () => {
        layer.loading -= 1;
        if (!layer.loading) showTiles(layer);
      };
      image.style.left = `${column * side}px`;
      image.style.top = `${row * side}px`;
      const size = (count, place, all) => Math.min(side, all * stretch - place * side);
      image.style.width = `${size(columns, column, layer.width)}px`;
      image.style.height = `${size(rows, row, layer.height)}px`;
      image.src = `${layer.path}/${name}.${layer.ending}`;
      layer.node.append(image);
      layer.tiles.set(name, image);
    }
  };

  // Marks whose lines would fade at this scale are shown from a smaller picture, in which they are as wide.
  const showSize = (layer) => {
    const wanted = Math.ceil(Math.log2(1 / (view.scale * (window.devicePixelRatio || 1))));
    const size = Math.max(0, Math.min(layer.sizes.length - 1, wanted));
    if (size === layer.size) return;
    layer.size = size;
    const half = (side) => { for (let left = size; left; left--) side = Math.ceil(side / 2); return side * 2 ** size; };
    layer.image.src = layer.sizes[size];
    layer.image.style.width = `${half(layer.width) * (view.width / layer.width)}px`;
    layer.image.style.height = `${half(layer.height) * (view.height / layer.height)}px`;
  };

  const setLayer = (layer) => {
    layer.node.style.opacity = layer.strength;
    layer.node.style.display = layer.on ? "" : "none";
  };
  const addLayer = (about) => {
    const layer = { ...about, node: make("div", { className: about.marks ? "layer" : "layer picture" }), tiles: new Map(), loading: 0 };
    layer.strength = about.marks ? 0.85 : 1;
    if (!about.levels) {
      const image = make("img", { alt: "", draggable: false, src: about.src });
      image.style.width = `${view.width}px`;
      image.style.height = `${view.height}px`;
      layer.node.append(image);
      if (about.smaller && about.smaller.length) Object.assign(layer, { image, size: 0, sizes: [about.src, ...about.smaller] });
    }
    world.append(layer.node);
    setLayer(layer);
    return layer;
  };

  const SWATCHES_MOST = 3;
  const brightness = () => {
    const input = make("input", { type: "range", min: 0, max: 4, step: 0.1, value: 0, id: "brightness" });
    input.setAttribute("aria-label", "Brightness of the picture");
    input.oninput = () => world.style.setProperty("--bright", 2 ** input.value);
    input.oninput();
    return make("div", { className: "layerrow" }, make("label", { htmlFor: "brightness", textContent: "brightness" }), input);
  };
  const layerRow = (layer, place) => {
    const box = make("input", { type: "checkbox", checked: layer.on });
    const fade = make("input", { type: "range", min: 0, max: 1, step: 0.05, value: layer.strength });
    fade.setAttribute("aria-label", `Strength of ${layer.name}`);
    box.onchange = () => { layer.on = box.checked; setLayer(layer); };
    fade.oninput = () => { layer.strength = fade.value; setLayer(layer); };
    layer.toggle = () => box.click();
    const label = make("label", { title: place < 9 ? `Key ${place + 1}` : "" }, box);
    for (const colour of [...new Set(layer.colours)].slice(0, SWATCHES_MOST)) {
      const swatch = make("span", { className: "swatch" });
      swatch.style.background = colour;
      label.append(swatch);
    }
    label.append(layer.name);
    return make("div", { className: "layerrow" }, label, fade);
  };

  const slider = (names) => {
    const pictures = names.map((name) => layers.find((layer) => layer.name === name)).filter(Boolean);
    const input = make("input", { type: "range", min: 0, max: pictures.length - 1, step: 0.01, value: 0, id: "slide" });
    input.setAttribute("aria-label", `From ${names.join(" to ")}`);
    input.oninput = () =>
      pictures.forEach((layer, place) => {
        layer.on = place === 0 || input.value > place - 1;
        layer.strength = place === 0 ? 1 : Math.min(1, Math.max(0, input.value - place + 1));
        setLayer(layer);
      });
    const words = make("div", { className: "slidewords" }, ...pictures.map((layer) => make("span", { textContent: layer.name })));
    input.oninput();
    return [make("h3", { textContent: "From one to the other" }), input, words];
  };

  const outline = (area) => {
    for (const rect of world.querySelectorAll("rect")) rect.remove();
    if (!area) return;
    const [top, left, bottom, right] = area;
    const values = { x: left, y: top, width: right - left, height: bottom - top };
    box.append(draw("rect", { ...values, class: "under" }), draw("rect", values));
  };

  const fillSide = (data) => {
    side.replaceChildren();
    if (data.slide && data.slide.length > 1) side.append(...slider(data.slide));
    const rows = layers.filter((layer) => !(data.slide || []).includes(layer.name));
    if (rows.length) side.append(make("h3", { textContent: "Layers" }), ...rows.map(layerRow));
    if (layers.some((layer) => !layer.marks)) side.append(brightness());
    for (const warning of data.warnings || []) side.append(make("div", { className: "note", textContent: warning }));
    if (data.reasons && data.reasons.length) {
      const items = data.reasons.map((reason) => {
        const points = reason.lost ? ` (${reason.lost.toFixed(4)})` : "";
        const words = `${reason.kind}: ${reason.text}${points}`;
        if (!reason.box) return make("li", { textContent: words });
        const button = make("button", { type: "button", textContent: words });
        button.onclick = () => { outline(reason.box); fit(reason.box); };
        return make("li", {}, button);
      });
      side.append(make("h3", { textContent: "Why points were lost" }), make("ul", { className: "reasons" }, ...items));
    }
    for (const strip of data.strips || [])
      side.append(make("figure", { className: "strip" }, make("figcaption", { textContent: strip.title }),
        make("img", { alt: strip.title, src: strip.src }), make("figcaption", { textContent: strip.caption })));
    side.append(foot);
    fillFoot(data);
  };
  const foot = make("div");
  const fillFoot = (data) => {
    foot.replaceChildren();
    if (data.files && data.files.length) {
      const links = data.files.map(([name, href, about]) =>
        make("li", {}, make("a", { textContent: name, href }), about ? ` (${about})` : ""));
      foot.append(make("h3", { textContent: "Files" }), make("ul", { className: "files" }, ...links));
    }
    const facts = Object.entries(data.facts || {});
    if (facts.length) {
      const terms = facts.flatMap(([name, value]) => [make("dt", { textContent: name }), make("dd", { textContent: number(value) })]);
      foot.append(make("h3", { textContent: "Numbers" }), make("dl", {}, ...terms));
    }
  };

  const show = (card) => {
    const data = JSON.parse(card.querySelector("script").textContent);
    current = card;
    for (const button of dialog.querySelectorAll("[data-do=previous], [data-do=next]")) button.hidden = cards.length < 2;
    world.replaceChildren();
    find("viewer-title").textContent = data.value === null ? data.id : `${data.id}: ${data.value.toFixed(4)}`;
    view.width = data.width || 1;
    view.height = data.height || 1;
    layers = (data.layers || []).map(addLayer);
    box = draw("svg", { width: view.width, height: view.height, viewBox: `0 0 ${view.width} ${view.height}` });
    for (const line of data.lines || []) {
      const [x1, y1, x2, y2] = line.points;
      box.append(draw("line", { x1, y1, x2, y2, stroke: line.colour }));
    }
    for (const name of data.names || []) {
      const [x, y] = name.place;
      const word = draw("text", { x, y, "text-anchor": "middle" });
      word.textContent = name.text;
      box.append(word);
    }
    world.append(box);
    fillSide(data);
    if (!dialog.open) dialog.showModal();
    stage.focus({ preventScroll: true });
    fit();
    remember(card.id);
  };
  const remember = (id) => {
    try { history.replaceState(null, "", id ? `#${id}` : "#cases"); } catch (error) { /* not from disk everywhere */ }
  };
  const step = (by) => {
    const all = shown();
    if (all.length) show(all[(all.indexOf(current) + by + all.length) % all.length]);
  };

  const actions = {
    in: () => zoom(1.5), out: () => zoom(1 / 1.5), fit: () => { outline(null); fit(); },
    next: () => step(1), previous: () => step(-1), close: () => dialog.close(),
  };
  const keys = { "+": "in", "=": "in", "-": "out", 0: "fit", n: "next", p: "previous" };
  const arrows = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };

  const listen = () => {
    // From the app, which knows files and counts of a changed answer a little after its picture.
    document.addEventListener("completed", () => { if (dialog.open) fillFoot(JSON.parse(current.querySelector("script").textContent)); });
    dialog.addEventListener("click", (event) => {
      const action = event.target.dataset && event.target.dataset.do;
      if (action) actions[action]();
    });
    dialog.addEventListener("close", () => { world.replaceChildren(); layers = []; remember(""); if (current) current.querySelector(".open").focus(); });
    dialog.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const typing = event.target.matches("input[type=range], input[type=search], select");
      if (keys[event.key] && !typing) actions[keys[event.key]]();
      else if (arrows[event.key] && event.target === stage) { move(...arrows[event.key]); event.preventDefault(); }
      else if (/^[1-9]$/.test(event.key) && !typing) {
        const rows = layers.filter((layer) => layer.toggle);
        if (rows[event.key - 1]) rows[event.key - 1].toggle();
      }
    });
    stage.addEventListener("wheel", (event) => {
      event.preventDefault();
      const edge = stage.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.clientX - edge.left, event.clientY - edge.top);
    }, { passive: false });
    const fingers = new Map();
    stage.addEventListener("pointerdown", (event) => {
      stage.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, event);
      stage.classList.add("moving");
    });
    stage.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (!before) return;
      const others = [...fingers.values()].filter((finger) => finger.pointerId !== event.pointerId);
      if (!others.length) move(event.clientX - before.clientX, event.clientY - before.clientY);
      else {
        const [other] = others, edge = stage.getBoundingClientRect();
        const away = (finger) => Math.hypot(finger.clientX - other.clientX, finger.clientY - other.clientY) || 1;
        zoom(away(event) / away(before), (event.clientX + other.clientX) / 2 - edge.left, (event.clientY + other.clientY) / 2 - edge.top);
      }
      fingers.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel"])
      stage.addEventListener(end, (event) => { fingers.delete(event.pointerId); stage.classList.toggle("moving", fingers.size > 0); });
    window.addEventListener("resize", () => { if (dialog.open) place(); });
  };

  if (list && dialog) {
    listen();
    list.addEventListener("click", (event) => {
      const button = event.target.closest(".open");
      if (button) show(button.closest(".card"));
    });
    find("find").oninput = filter;
    find("show").onchange = filter;
    find("order").onchange = sort;
    document.querySelector(".tools").addEventListener("submit", (event) => event.preventDefault());
    if (/^#case-\d+$/.test(location.hash) && find(location.hash.slice(1))) show(find(location.hash.slice(1)));
  }
})();
