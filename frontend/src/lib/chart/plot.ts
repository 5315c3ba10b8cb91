// Options for uPlot: colours of the page, a fixed time range, visible gaps, and marks on the time axis.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Event } from "../api.gen";
import type { Frame } from "./frame";

export interface Line {
  label: string;
  /** A colour of the page's palette: 1..8. */
  colour: number;
  shown: boolean;
}

export interface PlotOptions {
  lines: Line[];
  /** A value with its unit, for the axis. */
  format: (v: number) => string;
  height: number;
  /** A logarithmic axis; it has no place for 0. */
  log: boolean;
  range: () => { fromMs: number; toMs: number };
  marks: () => readonly Event[];
  onZoom: (fromMs: number, toMs: number) => void;
  onCursor: (index: number | null) => void;
}

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Charts with this key share one cursor. */
const sync = uPlot.sync("nereid");

export function createPlot(parent: HTMLElement, data: Frame, o: PlotOptions): uPlot {
  const axis = { stroke: css("--muted"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1 }, font: "11px system-ui, sans-serif" };
  return new uPlot(
    {
      width: Math.max(200, parent.clientWidth),
      height: o.height,
      legend: { show: false },
      // The other charts follow the pointer, but not the drag: each would zoom too.
      cursor: { sync: { key: sync.key, setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
      scales: {
        x: { time: true, range: () => [o.range().fromMs / 1000, o.range().toMs / 1000] },
        y: o.log ? { distr: 3, range: logRange } : { range: (_, _min, max) => [0, Number.isFinite(max) && max > 0 ? max * 1.1 : 1] },
      },
      axes: [
        { ...axis, size: 26, values: timeValues },
        { ...axis, size: 74, values: (_, ticks) => ticks.map((v: number | null) => (v === null ? null : o.format(v))) },
      ],
      series: [{}, ...o.lines.map((l) => series(l))],
      hooks: {
        setSelect: [
          (u) => {
            if (u.select.width < 4) return;
            o.onZoom(u.posToVal(u.select.left, "x") * 1000, u.posToVal(u.select.left + u.select.width, "x") * 1000);
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        setCursor: [(u) => o.onCursor(u.cursor.idx ?? null)],
        drawAxes: [(u) => drawMarks(u, o.marks())],
      },
    },
    data,
    parent,
  );
}

/** Whole decades around the values, with room below the smallest; uPlot leaves zeros out of min. */
function logRange(_: uPlot, min: number | null, max: number | null): uPlot.Range.MinMax {
  if (!min || !max || min <= 0) return [0.1, 1];
  return [10 ** Math.floor(Math.log10(min * 0.99)), 10 ** Math.ceil(Math.log10(max * 1.0001))];
}

/** The plot as it is shown, with its title and its lines' names, on the page's background. */
export function picture(u: uPlot, title: string, lines: readonly Line[]): Promise<Blob | null> {
  const scale = devicePixelRatio;
  const from = u.ctx.canvas;
  const out = document.createElement("canvas");
  const head = 44 * scale;
  out.width = from.width;
  out.height = from.height + head;
  const c = out.getContext("2d")!;
  c.fillStyle = css("--panel");
  c.fillRect(0, 0, out.width, out.height);
  c.fillStyle = css("--text");
  c.font = `600 ${13 * scale}px system-ui, sans-serif`;
  c.fillText(title, 8 * scale, 16 * scale);
  c.font = `${12 * scale}px system-ui, sans-serif`;
  let x = 8 * scale;
  for (const l of lines.filter((l) => l.shown)) {
    c.fillStyle = css(`--c${l.colour}`);
    c.fillText(l.label, x, 34 * scale);
    x += c.measureText(l.label).width + 14 * scale;
  }
  c.drawImage(from, 0, head);
  return new Promise((done) => out.toBlob(done, "image/png"));
}

function series(l: Line): uPlot.Series {
  const stroke = css(`--c${l.colour}`);
  return {
    label: l.label,
    show: l.shown,
    stroke,
    width: 1.5,
    spanGaps: false,
    // A value between two gaps has no line, so it is drawn as a point.
    points: { show: true, size: 4, fill: stroke, filter: (u, i) => isolated(u.data[i] ?? []) },
  };
}

/** The indexes of values between two gaps. */
export function isolated(values: ArrayLike<number | null | undefined>): number[] {
  const out: number[] = [];
  const has = (i: number) => values[i] !== null && values[i] !== undefined;
  for (let i = 0; i < values.length; i++) if (has(i) && !has(i - 1) && !has(i + 1)) out.push(i);
  return out;
}

const pad = (n: number) => String(n).padStart(2, "0");

/** Times of day; at midnight the date. */
function timeValues(_: uPlot, ticks: number[], __: number, ___: number, step: number): string[] {
  return ticks.map((t) => {
    const d = new Date(t * 1000);
    if (step >= 86400 || (d.getHours() === 0 && d.getMinutes() === 0 && d.getSeconds() === 0)) return `${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
    return `${pad(d.getHours())}:${pad(d.getMinutes())}${step < 60 ? `:${pad(d.getSeconds())}` : ""}`;
  });
}

function drawMarks(u: uPlot, marks: readonly Event[]): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.setLineDash([4, 3]);
  ctx.lineWidth = Math.max(1, devicePixelRatio);
  for (const m of marks) {
    const x = Math.round(u.valToPos(m.tMs / 1000, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = css(m.severity === "error" ? "--bad" : m.severity === "warning" ? "--warn" : "--c8");
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.beginPath();
    ctx.arc(x, bbox.top + 3, 3 * devicePixelRatio, 0, 2 * Math.PI);
    ctx.fill();
  }
  ctx.restore();
}
