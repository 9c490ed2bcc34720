import { linearBuiltins, wgsl } from "../../wgsl.js";
import { lines } from "./lines.js";
import { type ProductTile, stagedPitch, tileThreads } from "./tile.js";

/** How one operand gets from its buffer to workgroup memory. */
export interface Stage {
  /** Run once: what does not change from one step of k to the next. */
  readonly prepare: string;
  /** Reads the part that starts at `depthBase` into registers, zeros from `k` on. */
  readonly load: string;
  /** Writes the registers to workgroup memory. */
  readonly store: string;
}

/** What makes a kernel of the tiled product. */
export interface ProductParts {
  readonly tile: ProductTile;
  /** Bindings, parameters and the functions that the other parts call. */
  readonly declarations: string;
  /** Defines `rowBase` and `columnBase`, where the tile starts, and `depthStart` and `k`, from where to where it sums. */
  readonly prologue: string;
  readonly left: Stage;
  readonly right: Stage;
  /** Statements run before the first store of each quad of columns, numbered from 0, that starts at `column`. */
  readonly prepareStore?: (number: number, column: string) => string;
  /** A statement that stores `quad`, quad `number` of the results at `row`: those from `column` on, as far as they exist. */
  readonly store: (row: string, column: string, quad: string, number: number) => string;
}

/** An element of one of the staged tiles, as a WGSL expression. */
export type Staged = (index: string) => string;

export const leftTile: Staged = (index) => `leftTile[${index}]`;
export const rightTile: Staged = (index) => `rightTile[${index}]`;

/** One step of k, written out: adds left column times right row to the accumulators of one invocation. */
export interface OuterProduct {
  readonly tile: ProductTile;
  /** WGSL expression: the step within the staged tiles. */
  readonly step: string;
  readonly left: Staged;
  readonly leftPitch: string;
  readonly right: Staged;
  readonly rightPitch: string;
  /** Prefix of the accumulators: `<sum>_<row>_<quad of columns>`. */
  readonly sum: string;
}

export function outerProduct(parts: OuterProduct): string {
  const { tile, step, sum } = parts;
  const { down, across } = tileThreads(tile);
  const rows = lines(tile.threadRows, (row) =>
    lines(tile.threadColumns / 4, (quad) => {
      return `      ${sum}_${row}_${quad} += left_${row >> 2}.${"xyzw"[row & 3]} * right_${quad};`;
    }),
  );
  return `    { // ${step}
      let rowAt = (${step}) * ${parts.leftPitch} + threadRow;
      let columnAt = (${step}) * ${parts.rightPitch} + threadColumn;
${lines(tile.threadRows / 4, (quad) => `      let left_${quad} = ${parts.left(`rowAt + ${quad * down}u`)};`)}
${lines(tile.threadColumns / 4, (quad) => `      let right_${quad} = ${parts.right(`columnAt + ${quad * across}u`)};`)}
${rows}
    }`;
}

/** Declares the accumulators of one invocation: a vec4f for each row and quad of columns. */
export function accumulators(tile: ProductTile, sum: string): string {
  return lines(tile.threadRows, (row) =>
    lines(tile.threadColumns / 4, (quad) => `  var ${sum}_${row}_${quad} = vec4f();`),
  );
}

/**
 * Multiplies a left operand (rows x k) by a right one (k x columns) into new accumulators `sum_...`,
 * from `depthStart` to `k`. Both are staged in workgroup memory as quads along rows and columns, so
 * that the inner loop reads four values at a time. The accumulators are named variables, not an array,
 * which drivers would keep in memory. The next step is read into registers while the current one is
 * computed. Workgroup memory is still being read at the end.
 */
export function productLoop(
  tile: ProductTile,
  left: Stage,
  right: Stage,
  leftAt: Staged = leftTile,
  rightAt: Staged = rightTile,
): string {
  const steps = lines(tile.unroll, (offset) =>
    outerProduct({
      ...{ tile, sum: "sum", step: `d + ${offset}u` },
      ...{ left: leftAt, leftPitch: "LEFT_PITCH", right: rightAt, rightPitch: "RIGHT_PITCH" },
    }),
  );
  return `${accumulators(tile, "sum")}
${left.prepare}
${right.prepare}
  var depthBase = depthStart;
${left.load}
${right.load}
  loop {
${left.store}
${right.store}
    workgroupBarrier();
    depthBase += DEPTH;
    if (depthBase < k) {
${left.load}
${right.load}
    }
    for (var d = 0u; d < DEPTH; d += ${tile.unroll}u) {
${steps}
    }
    if (depthBase >= k) { break; }
    workgroupBarrier();
  }`;
}

/** Constants that the texts of this file use. */
export function tileConstants(tile: ProductTile): string {
  return `const ROWS = ${tile.rows}u;
const COLUMNS = ${tile.columns}u;
const DEPTH = ${tile.depth}u;
const THREADS = ${tileThreads(tile).total}u;
const LEFT_PITCH = ${stagedPitch(tile.rows)}u; // quads from one step of k to the next
const RIGHT_PITCH = ${stagedPitch(tile.columns)}u;`;
}

/** Where an invocation is in its tile. */
export function tilePlace(tile: ProductTile): string {
  const { down, across } = tileThreads(tile);
  return `  let threadRow = lane / ${across}u; // a quad of rows; the next are ${down} further on
  let threadColumn = lane % ${across}u; // a quad of columns; the next are ${across} further on`;
}

/** WGSL expressions for the places of an invocation's results. */
export function rowAt(tile: ProductTile, row: number): string {
  return `rowBase + (threadRow + ${(row >> 2) * tileThreads(tile).down}u) * 4u + ${row & 3}u`;
}
export function columnAt(tile: ProductTile, quad: number): string {
  return `columnBase + (threadColumn + ${quad * tileThreads(tile).across}u) * 4u`;
}

/** The text of a kernel that computes one tile of a product and stores it. */
export function productSource(parts: ProductParts): string {
  const { tile } = parts;
  const quads = tile.threadColumns / 4;
  const preparations = lines(quads, (quad) => parts.prepareStore?.(quad, columnAt(tile, quad)) ?? "");
  const results = lines(tile.threadRows, (row) => {
    const stores = lines(
      quads,
      (quad) => `    ${parts.store("row", columnAt(tile, quad), `sum_${row}_${quad}`, quad)}`,
    );
    return `  {\n    let row = ${rowAt(tile, row)};\n${stores}\n  }`;
  });

  return wgsl`${parts.declarations}
// One workgroup computes ROWS x COLUMNS results, one invocation ${tile.threadRows} x ${tile.threadColumns} of them.
${tileConstants(tile)}

var<workgroup> leftTile: array<vec4f, DEPTH * LEFT_PITCH>; // DEPTH rows of ROWS values, padded
var<workgroup> rightTile: array<vec4f, DEPTH * RIGHT_PITCH>; // DEPTH rows of COLUMNS values, padded

@compute @workgroup_size(THREADS)
fn main(${linearBuiltins}) {
${parts.prologue}
${tilePlace(tile)}
${productLoop(tile, parts.left, parts.right)}
${preparations}
${results}
}
`;
}
