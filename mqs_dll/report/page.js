"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const ROWS = data.rows_shown;
  const SMALLEST = 2; // times that a graph may be scaled down before it can't be read

  // ---------------------------------------------------------------- sets of numbers, as sorted intervals

  /** Return "0-3, 7, 10-18:2" as intervals; null where nothing is asked for, undefined where it isn't understood. */
  function parse(text) {
    const found = [];
    for (const part of text.replace(/[[\]]/g, "").split(/[\s,]+/).filter(Boolean)) {
      const match = /^(-?\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?$/.exec(part);
      if (!match) return undefined;
      const [first, last, step] = [Number(match[1]), Number(match[2] ?? match[1]), Number(match[3] ?? 1)];
      if (step === 1) found.push([first, last]);
      else for (let each = first; step && each <= last && found.length < 100000; each += step) found.push([each, each]);
    }
    return found.length ? found.sort((a, b) => a[0] - b[0]) : null;
  }

  function contains(intervals, number) {
    return intervals.some(([first, last]) => first <= number && number <= last);
  }

  function meet(one, other) {
    let i = 0, j = 0;
    while (i < one.length && j < other.length) {
      if (one[i][1] < other[j][0]) i++;
      else if (other[j][1] < one[i][0]) j++;
      else return true;
    }
    return false;
  }

  /** Return the places of the processes that have one of these ranks, in whichever MPI_COMM_WORLD. */
  function placesOf(ranks) {
    if (!data.ranks) return ranks;
    return data.ranks.flatMap((rank, place) => (rank !== null && contains(ranks, rank) ? [[place, place]] : []));
  }

  // ---------------------------------------------------------------- filters

  const fields = { communicator: byId("communicator"), tag: byId("tag"), rank: byId("rank") };

  function filter() {
    const asked = {};
    for (const name of ["tag", "rank"]) {
      const found = parse(fields[name].value);
      fields[name].setAttribute("aria-invalid", String(found === undefined));
      asked[name] = found ?? null;
    }
    asked.places = asked.rank && placesOf(asked.rank);
    asked.communicator = fields.communicator.value === "" ? null : Number(fields.communicator.value);
    return asked;
  }

  const ofPlaces = (places, asked) => !asked.places || meet(data.sets[places], asked.places);

  function isWait([communicator, tag, processes, peers], asked) {
    if (asked.communicator !== null && (communicator ?? -1) !== asked.communicator) return false;
    if (asked.tag && !(typeof tag === "string" || (tag !== null && contains(asked.tag, tag)))) return false;
    return ofPlaces(processes, asked) || ofPlaces(peers, asked);
  }

  /** Return whom the waits that are shown are about: a rank that does something else isn't. */
  function waiting(asked) {
    const found = data.tables.waits.facts.filter((facts) => isWait(facts, asked)).flatMap((facts) => data.sets[facts[2]]);
    return found.sort((a, b) => a[0] - b[0]);
  }

  const shows = {
    waits: (facts, asked) => isWait(facts, asked),
    activities: (facts, asked) => ofPlaces(facts[2], asked) && (!asked.waiting || meet(data.sets[facts[2]], asked.waiting)),
    communicators: (facts, asked) =>
      ofPlaces(facts[2], asked) && (asked.communicator === null || facts[0] === asked.communicator),
  };

  function showGraph(asked) {
    const touched = new Set();
    data.arrows.forEach(([source, target, parts], number) => {
      const shown = parts.some((facts) => isWait(facts, asked));
      document.querySelector(`[data-arrow="${number}"]`).classList.toggle("away", !shown);
      if (shown) touched.add(source).add(target);
    });
    const byWaits = asked.communicator !== null || asked.tag;
    data.nodes.forEach((places, number) => {
      const shown = touched.has(number) || (!byWaits && ofPlaces(places, asked));
      document.querySelector(`[data-node="${number}"]`).classList.toggle("away", !shown);
    });
  }

  function apply() {
    const asked = filter();
    asked.waiting = (asked.communicator !== null || asked.tag) && waiting(asked);
    showGraph(asked);
    showTree(asked);
    const counts = Object.values(tables).map((table) => table.apply(asked));
    byId("shown").textContent = `${counts[0].shown} of ${counts[0].all} rows of waits`;
  }

  // ---------------------------------------------------------------- the call tree

  const branches = [...document.querySelectorAll("#tree li[data-set]")];
  const search = byId("search");

  /** Show the branches that have one of the ranks and what is searched for: in themselves, further out or further in. */
  function showTree(asked) {
    if (!branches.length) return;
    const words = search.value.trim().toLowerCase();
    const kept = new Set();
    let hits = 0;
    for (const branch of branches) {
      let hit = false;
      for (const place of branch.querySelectorAll(":scope > .place, :scope > details > .place")) {
        const shown = [...place.querySelectorAll(".function, .site")].map((part) => part.textContent).join(" ");
        const here = words !== "" && shown.toLowerCase().includes(words);
        place.classList.toggle("hit", here);
        hit ||= here;
      }
      hits += hit;
      const outer = branch.parentElement.closest("li[data-set]");
      branch.below = hit || Boolean(outer && outer.below);
      if (!ofPlaces(branch.dataset.set, asked) || (words && !branch.below)) continue;
      for (let each = branch; each && !kept.has(each); each = each.parentElement.closest("li[data-set]")) kept.add(each);
    }
    for (const branch of branches) {
      branch.classList.toggle("away", !kept.has(branch));
      const details = branch.querySelector(":scope > details");
      if (details && words && kept.has(branch)) details.open = true;
    }
    byId("found").textContent = words ? `found in ${hits} of ${branches.length} branches` : "";
  }

  function makeTreeLive() {
    if (!branches.length) return;
    byId("tree-tools").hidden = false;
    search.addEventListener("input", apply);
    const all = (open) => () => document.querySelectorAll("#tree details").forEach((each) => { each.open = open; });
    byId("open").addEventListener("click", all(true));
    byId("close").addEventListener("click", all(false));
    byId("tree").addEventListener("click", (event) => {
      const who = event.target.closest("button.who");
      if (!who) return;
      event.preventDefault();
      fields.rank.value = who.dataset.ranks;
      apply();
    });
  }

  // ---------------------------------------------------------------- tables

  const collator = new Intl.Collator("en", { numeric: true });

  class Table {
    constructor(name) {
      const { rows, facts } = data.tables[name];
      this.shows = shows[name];
      this.rows = rows.map((cells, number) => ({ cells: cells.map((cell) => data.strings[cell]), facts: facts[number], number }));
      this.body = document.querySelector(`#${name} tbody`);
      this.more = byId(`${name}-more`);
      this.limit = ROWS;
      this.more.addEventListener("click", () => { this.limit = Infinity; this.draw(); });
      this.heads = [...document.querySelectorAll(`#${name} th`)];
      this.heads.forEach((head, column) => this.makeSortable(head, column));
    }

    makeSortable(head, column) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
        this.heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        this.rows.sort((a, b) => sign * collator.compare(a.cells[column], b.cells[column]) || a.number - b.number);
        this.apply(this.asked);
      });
    }

    apply(asked) {
      this.asked = asked;
      this.shown = this.rows.filter((row) => this.shows(row.facts, asked));
      this.draw();
      return { shown: this.shown.length, all: this.rows.length };
    }

    draw() {
      const lines = this.shown.slice(0, this.limit).map((row) => {
        const line = document.createElement("tr");
        for (const cell of row.cells) line.insertCell().textContent = cell;
        return line;
      });
      this.body.replaceChildren(...lines);
      this.more.hidden = this.shown.length <= this.limit;
      this.more.textContent = `Show all ${this.shown.length} rows`;
    }
  }

  // ---------------------------------------------------------------- the graph: pan and zoom

  const [frame, graph] = [byId("frame"), byId("graph")];
  const whole = graph.viewBox.baseVal;
  const start = [whole.x, whole.y, whole.width, whole.height];
  let view = [...start];

  function look(next) {
    view = next;
    graph.setAttribute("viewBox", view.join(" "));
  }

  function zoom(factor, x = view[0] + view[2] / 2, y = view[1] + view[3] / 2) {
    const scale = Math.min(Math.max(factor, start[2] / 40 / view[2]), (start[2] * 4) / view[2]);
    look([x - (x - view[0]) * scale, y - (y - view[1]) * scale, view[2] * scale, view[3] * scale]);
  }

  function pan(right, down) {
    look([view[0] + right, view[1] + down, view[2], view[3]]);
  }

  /** Show all of the graph, a small one in its own size; of one that could not be read then, its upper left corner. */
  function fit() {
    const wide = frame.clientWidth;
    if (!wide) return; // a window that isn't shown yet
    const high = Math.min(start[3] * Math.min(1, Math.max(wide / start[2], 1 / SMALLEST)), Math.max(1.6 * window.innerHeight, 600));
    graph.style.height = `${Math.max(high, 120)}px`;
    const scale = Math.min(Math.max(start[2] / wide, start[3] / high, 1), SMALLEST);
    look([Math.min((start[2] - wide * scale) / 2, 0), Math.min((start[3] - high * scale) / 2, 0), wide * scale, high * scale]);
  }

  const pixel = () => view[2] / frame.clientWidth;

  function makeMovable() {
    let held = null;
    graph.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY, 0]; });
    graph.addEventListener("pointermove", (event) => {
      if (!held || !event.buttons) return;
      const [right, down] = [held[0] - event.clientX, held[1] - event.clientY];
      if (!held[2] && Math.abs(right) + Math.abs(down) < 4) return;
      graph.setPointerCapture(event.pointerId);
      pan(right * pixel(), down * pixel());
      held = [event.clientX, event.clientY, 1];
    });
    for (const end of ["pointerup", "pointercancel"]) graph.addEventListener(end, () => { held = null; });
    graph.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const box = graph.getBoundingClientRect();
      zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, view[0] + (event.clientX - box.left) * pixel(), view[1] + (event.clientY - box.top) * pixel());
    }, { passive: false });
    const keys = {
      ArrowLeft: () => pan(-view[2] / 12, 0), ArrowRight: () => pan(view[2] / 12, 0),
      ArrowUp: () => pan(0, -view[3] / 12), ArrowDown: () => pan(0, view[3] / 12),
      "+": () => zoom(1 / 1.25), "=": () => zoom(1 / 1.25), "-": () => zoom(1.25), 0: fit,
    };
    graph.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    byId("zoom-in").addEventListener("click", () => zoom(1 / 1.25));
    byId("zoom-out").addEventListener("click", () => zoom(1.25));
    byId("fit").addEventListener("click", fit);
    window.addEventListener("resize", fit);
    graph.setAttribute("tabindex", "0");
  }

  function makeNodesButtons() {
    data.nodes.forEach((places, number) => {
      const ranks = data.node_ranks[number];
      if (!ranks) return;
      const node = document.querySelector(`[data-node="${number}"]`);
      const choose = () => { fields.rank.value = ranks; apply(); };
      node.setAttribute("tabindex", "0");
      node.setAttribute("role", "button");
      node.addEventListener("click", choose);
      node.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
    });
  }

  // ---------------------------------------------------------------- begin

  for (const [value, words] of [["", "all"], ...data.communicators]) {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = words;
    fields.communicator.append(option);
  }
  const tables = Object.fromEntries(Object.keys(data.tables).map((name) => [name, new Table(name)]));
  for (const field of Object.values(fields)) for (const event of ["input", "change"]) field.addEventListener(event, apply);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => setTimeout(() => { if (search) search.value = ""; apply(); }));
  byId("filters").hidden = byId("tools").hidden = false;
  graph.classList.add("live");
  makeMovable();
  makeNodesButtons();
  makeTreeLive();
  fit();
  apply();
})();
