// Where the boxes of an ensemble are drawn: from the left to the right, with few crossings.
import { Graph, layout as dagre } from "@dagrejs/dagre";

export interface Block {
  /** The left upper corner, in pixels of the drawing. */
  x: number;
  y: number;
  height: number;
}
/** The size of a box, its head and the row of a port, in pixels. */
export const [blockWidth, headHeight, portHeight] = [210, 44, 27];

export interface Point {
  x: number;
  y: number;
}

/**
 * Places boxes with so many rows each. edges are pairs of their numbers and may form a circle. between are, for each edge,
 * the points where it passes other boxes.
 */
export function blocks(rows: readonly number[], edges: readonly (readonly [number, number])[]): { width: number; height: number; blocks: Block[]; between: Point[][] } {
  const g = new Graph();
  g.setGraph({ rankdir: "LR", nodesep: 24, ranksep: 50, marginx: 10, marginy: 10 });
  g.setDefaultEdgeLabel(() => ({}));
  const heights = rows.map((n) => headHeight + n * portHeight + 6);
  heights.forEach((height, i) => g.setNode(String(i), { width: blockWidth, height }));
  for (const [from, to] of edges) if (from !== to) g.setEdge(String(from), String(to));
  dagre(g);
  const size = g.graph() as { width?: number; height?: number };
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    blocks: heights.map((height, i) => {
      const { x, y } = g.node(String(i)) as unknown as { x: number; y: number };
      return { x: x - blockWidth / 2, y: y - height / 2, height };
    }),
    // The library's first and last points are on the borders of the boxes, and those beside them half-way to the next row.
    between: edges.map(([from, to]) => ((g.edge(String(from), String(to)) as { points?: Point[] } | undefined)?.points ?? []).slice(1, -1).filter((_, i, all) => all.length > 1 && i % 2 === 1)),
  };
}
