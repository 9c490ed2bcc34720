import { linearBuiltins, lines, wgsl } from "../../program/index.js";
import { type ProductTile, stagedPitch, tileThreads } from "./tile.js";

/** How one operand gets from its buffer to workgroup memory. */
export interface Stage {
  /** Run once: the values that do not change from one step of k to the next. */
  readonly prepare: string;
  /** Reads the part that starts at `depthBase` into registers, zeros from `k` on. */
  readonly load: string;
  /** The same if `k` is not reached: without checks, which would hold up the loads. May be the same text. */
  readonly loadWhole: string;
  /** Writes the registers to workgroup memory, to one of its staged tiles. */
  readonly store: (tile: number) => string;
}

/** The parts of a kernel of the tiled product. */
export interface ProductParts {
  readonly tile: ProductTile;
  /** Bindings, parameters and the functions that the other parts call. */
  readonly declarations: string;
  /** Defines `rowBase` and `columnBase`, the start of the tile, and `depthStart` and `k`, the ends of the sum. */
  readonly prologue: string;
  readonly left: Stage;
  readonly right: Stage;
  /** Statements run before the first store of each quad of columns, numbered from 0, that starts at `column`. */
  readonly prepareStore?: (number: number, column: string) => string;
  /**
   * Returns a statement that stores `quad`, quad `number` of the results at `row`: those from `column` on, as
   * far as they exist.
   */
  readonly store: (row: string, column: string, quad: string, number: number) => string;
  /** Stores row by row in a loop, and not written out: for stores whose text is long. */
  readonly storesInLoop?: boolean;
}

/** Rows of tiles that are worked off together. */
const BAND = 8;

/** Returns an element of the staged data, as a WGSL expression. */
export type Staged = (index: string) => string;

/** An element of one of the staged tiles, which are variables of their own so that compilers tell them apart. */
export const leftTile = (tile: number): Staged => staged("leftTile", tile);
export const rightTile = (tile: number): Staged => staged("rightTile", tile);

function staged(name: string, tile: number): Staged {
  return (index) => `${name}${tile === 0 ? "" : tile}[${index}]`;
}

/** One step of k, written out: adds left column times right row to the accumulators of one invocation. */
export interface OuterProduct {
  readonly tile: ProductTile;
  /** WGSL expression: the step within the staged tiles. */
  readonly step: string;
  readonly left: Staged;
  readonly leftPitch: string;
  /** Returns a quad of columns, from its staged place or by its number. */
  readonly right: (index: string, quad: number) => string;
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
${lines(tile.threadColumns / 4, (quad) => `      let right_${quad} = ${parts.right(`columnAt + ${quad * across}u`, quad)};`)}
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
 * The place of a workgroup's tile, `rowBase` and `columnBase`, from its number `group` and how many
 * `tiles` there are, `tiles_across` of them side by side. Tiles go in bands of rows, so that workgroups
 * that run together share operands in the cache.
 */
export const tileInBands: string = wgsl`  let in_matrix = group % tiles;
  let band = in_matrix / (${BAND}u * tiles_across);
  let band_rows = min(${BAND}u, tiles / tiles_across - band * ${BAND}u);
  let in_band = in_matrix % (${BAND}u * tiles_across);
  let rowBase = (band * ${BAND}u + in_band % band_rows) * ROWS;
  let columnBase = in_band / band_rows * COLUMNS;`;

/** Each step in the two staged tiles by turns. */
function stagedPairs(left: Stage, right: Stage, steps: (tile: number) => string): string {
  const load = `${left.loadWhole}\n${right.loadWhole}`;
  const store = (tile: number) => `${left.store(tile)}\n${right.store(tile)}\n    workgroupBarrier();`;
  // Without the condition, which holds always except at the end, drivers move the loads to the place that
  // waits for them.
  const step = (tile: number) => `    depthBase += DEPTH;
    if (depthBase < k) {
${load}
    }
${steps(tile)}
${store(1 - tile)}`;
  return `  var depthBase = depthStart;
${load}
${store(0)}
  loop {
${step(0)}
${step(1)}
    if (depthBase >= k) { break; }
  }`;
}

/**
 * Stages two operands step by step, from `depthStart` to `k`, and runs `steps` on the staged data. The next
 * step is read into registers meanwhile. Workgroup memory is still being read at the end.
 */
function stagedLoop(left: Stage, right: Stage, steps: string): string {
  const [alike, others] = [true, false].map((wanted) =>
    [left, right].filter(({ load, loadWhole }) => (load === loadWhole) === wanted),
  ) as [Stage[], Stage[]];
  const branches = `    if (depthBase + DEPTH <= k) {
${others.map(({ loadWhole }) => loadWhole).join("\n")}
    } else {
${others.map(({ load }) => load).join("\n")}
    }`;
  const loads = [...(others.length > 0 ? [branches] : []), ...alike.map(({ load }) => load)].join("\n");
  return `  var depthBase = depthStart;
${loads}
  loop {
${left.store(0)}
${right.store(0)}
    workgroupBarrier();
    depthBase += DEPTH;
    if (depthBase < k) {
${loads}
    }
${steps}
    if (depthBase >= k) { break; }
    workgroupBarrier();
  }`;
}

/**
 * Multiplies a left operand (rows x k) by a right one (k x columns) into new accumulators `sum_...`,
 * from `depthStart` to `k`. Both are staged in workgroup memory as quads along rows and columns, so
 * that the inner loop reads four values at a time. The accumulators are named variables, not an array,
 * which drivers would keep in memory.
 *
 * All steps of `depth` are written out, so that every place in workgroup memory is a constant further
 * than the invocation's own: Tint proves it inside the array and adds no bounds check.
 */
function productLoop(tile: ProductTile, left: Stage, right: Stage): string {
  const steps = (from: number) =>
    lines(tile.depth, (index) =>
      outerProduct({
        ...{ tile, sum: "sum", step: `${index}u` },
        ...{
          left: leftTile(from),
          leftPitch: "LEFT_PITCH",
          right: rightTile(from),
          rightPitch: "RIGHT_PITCH",
        },
      }),
    );
  return `${accumulators(tile, "sum")}
${left.prepare}
${right.prepare}
${tile.buffers === 2 ? stagedPairs(left, right, steps) : stagedLoop(left, right, steps(0))}`;
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

/**
 * Returns the place of an invocation in its tile. If the tile is large enough, 32 neighbours form a block of
 * 4 x 8, so that a subgroup reads few different quads of either operand.
 */
export function tilePlace(tile: ProductTile): string {
  const { down, across } = tileThreads(tile);
  const blocks = across % 8 === 0 && down % 4 === 0 ? across / 8 : 0;
  const [row, column] =
    blocks > 1
      ? [`lane / ${32 * blocks}u * 4u + lane % 32u / 8u`, `lane / 32u % ${blocks}u * 8u + lane % 8u`]
      : [`lane / ${across}u`, `lane % ${across}u`];
  return `  let threadRow = ${row}; // a quad of rows; the next are ${down} further on
  let threadColumn = ${column}; // a quad of columns; the next are ${across} further on`;
}

/** WGSL expressions for the places of an invocation's results. */
export function rowAt(tile: ProductTile, row: number): string {
  return `rowBase + (threadRow + ${(row >> 2) * tileThreads(tile).down}u) * 4u + ${row & 3}u`;
}
export function columnAt(tile: ProductTile, quad: number): string {
  return `columnBase + (threadColumn + ${quad * tileThreads(tile).across}u) * 4u`;
}

/** The statements that store the accumulators `sum_...`; see `ProductParts`. */
export function storedResults(tile: ProductTile, inLoop: boolean, store: ProductParts["store"]): string {
  const quads = tile.threadColumns / 4;
  const storeRow = (sum: (quad: number) => string) =>
    lines(quads, (quad) => `    ${store("row", columnAt(tile, quad), sum(quad), quad)}`);
  if (!inLoop)
    return lines(
      tile.threadRows,
      (row) => `  {\n    let row = ${rowAt(tile, row)};\n${storeRow((quad) => `sum_${row}_${quad}`)}\n  }`,
    );
  return wgsl`  var sums = array<vec4f, ${tile.threadRows * quads}>(
${lines(tile.threadRows, (row) => lines(quads, (quad) => `    sum_${row}_${quad},`))}
  );
  for (var i = 0u; i < ${tile.threadRows}u; i++) {
    let row = rowBase + (threadRow + i / 4u * ${tileThreads(tile).down}u) * 4u + i % 4u;
${storeRow((quad) => `sums[i * ${quads}u + ${quad}u]`)}
  }`;
}

function stagedTiles(tile: number): string {
  const name = tile === 0 ? "" : tile;
  return `var<workgroup> leftTile${name}: array<vec4f, DEPTH * LEFT_PITCH>; // DEPTH rows of ROWS values, padded
var<workgroup> rightTile${name}: array<vec4f, DEPTH * RIGHT_PITCH>; // DEPTH rows of COLUMNS values, padded`;
}

/** The text of a kernel that computes one tile of a product and stores it. */
export function productSource(parts: ProductParts): string {
  const { tile } = parts;
  const quads = tile.threadColumns / 4;
  const preparations = lines(quads, (quad) => parts.prepareStore?.(quad, columnAt(tile, quad)) ?? "");
  const results = storedResults(tile, parts.storesInLoop ?? false, parts.store);

  return wgsl`${parts.declarations}
// One workgroup computes ROWS x COLUMNS results, one invocation ${tile.threadRows} x ${tile.threadColumns} of them.
${tileConstants(tile)}

${lines(tile.buffers ?? 1, stagedTiles)}

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
