// Where the nodes of a graph are drawn. It runs in a worker (worker.ts), because large graphs take seconds.
import { Graph, layout as dagre } from "@dagrejs/dagre";

export interface Box {
  /** The centre, in pixels of the drawing. */
  x: number;
  y: number;
  width: number;
  height: number;
}
export interface Line {
  from: number;
  to: number;
  points: { x: number; y: number }[];
}
export interface Drawing {
  width: number;
  height: number;
  boxes: Box[];
  lines: Line[];
}
/** The labels of the nodes, and pairs of their numbers. */
export interface Plan {
  labels: string[];
  edges: [number, number][];
}

const boxHeight = 28;
const boxWidth = (label: string) => Math.max(60, 20 + 7.8 * label.length);
/** Above this many nodes, or rows that lines cross, the library takes minutes, or recurses too deep. */
const [many, manyCrossed] = [600, 4000];
const [gap, rankGap, margin] = [24, 34, 16];

/** Places the nodes from the top to the bottom. Edges must not form a circle. */
export function layout(plan: Plan): Drawing {
  const { before, rank } = ranks(plan);
  const crossed = plan.edges.reduce((n, [from, to]) => n + (rank[to] ?? 0) - (rank[from] ?? 0) - 1, 0);
  return plan.labels.length > many || crossed > manyCrossed ? layered(plan, before, rank) : arranged(plan);
}

/** The nodes that each node takes from, and its row: below all of these. */
function ranks({ labels, edges }: Plan) {
  const before: number[][] = labels.map(() => []);
  for (const [from, to] of edges) before[to]?.push(from);
  const rank: number[] = [];
  labels.forEach((_, i) => (rank[i] = (before[i] ?? []).reduce((most, b) => Math.max(most, (rank[b] ?? -1) + 1), 0)));
  return { before, rank };
}

/**
 * Places each node below those that it takes from, near their middle. A line over several rows runs on the right of the
 * boxes between. Numbers of nodes must grow along edges, except for the outputs, which come last.
 */
function layered({ labels, edges }: Plan, before: number[][], rank: number[]): Drawing {
  const rows: number[][] = [];
  labels.forEach((_, i) => (rows[rank[i] ?? 0] ??= []).push(i));
  const boxes: Box[] = labels.map((label) => ({ x: 0, y: 0, width: boxWidth(label), height: boxHeight }));
  const at = (i: number) => boxes[i]?.x ?? 0;
  rows.forEach((row, r) => {
    const want = new Map(row.map((i) => [i, (before[i] ?? []).reduce((sum, b) => sum + at(b), 0) / Math.max(1, before[i]?.length ?? 0)]));
    row.sort((a, b) => (want.get(a) ?? 0) - (want.get(b) ?? 0));
    const whole = row.reduce((sum, i) => sum + (boxes[i]?.width ?? 0) + gap, -gap);
    let left = row.reduce((sum, i) => sum + (want.get(i) ?? 0), 0) / row.length - whole / 2;
    for (const i of row) {
      const b = boxes[i];
      if (!b) continue;
      b.x = left + b.width / 2;
      b.y = margin + boxHeight / 2 + r * (boxHeight + rankGap);
      left += b.width + gap;
    }
  });
  const right = rows.map((row) => Math.max(...row.map((i) => at(i) + (boxes[i]?.width ?? 0) / 2)));
  const lines = edges.map(([from, to], k): Line => {
    const [a, b] = [boxes[from], boxes[to]];
    if (!a || !b) return { from, to, points: [] };
    const start = { x: a.x, y: a.y + boxHeight / 2 };
    const end = { x: b.x, y: b.y - boxHeight / 2 };
    const between = right.slice((rank[from] ?? 0) + 1, rank[to]);
    if (between.length === 0) return { from, to, points: [start, end] };
    const x = Math.max(...between) + 10 + 5 * (k % 8);
    return { from, to, points: [start, { x, y: start.y + rankGap / 2 }, { x, y: end.y - rankGap / 2 }, end] };
  });
  const xs = lines.flatMap((l) => l.points.map((p) => p.x)).concat(boxes.flatMap((b) => [b.x - b.width / 2, b.x + b.width / 2]));
  const least = xs.reduce((x, y) => Math.min(x, y), Infinity) - margin;
  for (const p of [...boxes, ...lines.flatMap((l) => l.points)]) p.x -= least;
  return { width: xs.reduce((x, y) => Math.max(x, y), -Infinity) - least + margin, height: rows.length * (boxHeight + rankGap) - rankGap + 2 * margin, boxes, lines };
}

/** Places the nodes by the library, with few crossings. */
function arranged(plan: Plan): Drawing {
  const g = new Graph();
  g.setGraph({ rankdir: "TB", nodesep: gap, ranksep: rankGap, marginx: margin, marginy: margin });
  g.setDefaultEdgeLabel(() => ({}));
  plan.labels.forEach((label, i) => g.setNode(String(i), { width: boxWidth(label), height: boxHeight }));
  for (const [from, to] of plan.edges) g.setEdge(String(from), String(to));
  dagre(g);
  const size = g.graph() as { width?: number; height?: number };
  const node = (i: number) => g.node(String(i)) as unknown as Box;
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    boxes: plan.labels.map((_, i) => ({ x: node(i).x, y: node(i).y, width: node(i).width, height: node(i).height })),
    lines: plan.edges.map(([from, to]) => ({ from, to, points: ((g.edge(String(from), String(to)) as { points?: { x: number; y: number }[] }).points ?? []).map((p) => ({ x: p.x, y: p.y })) })),
  };
}
