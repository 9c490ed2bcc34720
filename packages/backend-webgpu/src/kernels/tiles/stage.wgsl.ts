import type { QuadAccess } from "./operands.wgsl.js";
import { leftTile, rightTile, type Stage } from "./product.wgsl.js";
import { type ProductTile, tileThreads } from "./tile.js";

/** A matrix operand of the tiled product: rows x k on the left, k x columns on the right. */
export interface MatrixStage {
  readonly side: "left" | "right";
  /** True: consecutive k lie next to each other in memory. False: consecutive rows or columns do. */
  readonly contiguousDepth: boolean;
  /** True: `load4` may be used, as every run of four in the contiguous direction is aligned and whole. */
  readonly vector: boolean;
  /** The WGSL function that reads one element, and how four consecutive ones are read. */
  readonly load1: string;
  readonly quad: QuadAccess;
  /** WGSL expressions: index of the first element, elements between stored rows, rows or columns in all. */
  readonly base: string;
  readonly pitch: string;
  readonly extent: string;
}

/** Registers and places of the values that one invocation brings in one round. */
interface Round {
  readonly prepare: string[];
  readonly load: string[];
  /** The register for step `depth + i`, for as many steps as a round brings. */
  readonly values: string[];
}

/**
 * Stages a stored matrix. Rows and columns past the end repeat the last one (their results are never
 * stored), so that only k needs a check. Neighbouring invocations read neighbouring addresses.
 */
export function matrixStage(tile: ProductTile, matrix: MatrixStage): Stage {
  const left = matrix.side === "left";
  const staged = left ? leftTile : rightTile;
  const pitch = left ? "LEFT_PITCH" : "RIGHT_PITCH";
  const quads = (left ? tile.rows : tile.columns) / 4;
  const perRound = matrix.contiguousDepth && matrix.vector ? 4 : 1;
  const steps = tile.depth / perRound;
  const units = quads * steps;
  const { total } = tileThreads(tile);

  const prepare: string[] = [];
  const load: string[] = [];
  const loadWhole: string[] = [];
  const stores: ((tile: number) => string[])[] = [];
  for (let first = 0, round = 0; first < units; first += total, round++) {
    const unit = `${matrix.side}_unit_${round}`;
    const quad = `${matrix.side}_quad_${round}`;
    const depth = `${matrix.side}_depth_${round}`;
    prepare.push(`  let ${unit} = lane + ${first}u;`);
    if (matrix.contiguousDepth)
      prepare.push(
        `  let ${quad} = ${unit} / ${steps}u;`,
        `  let ${depth} = ${unit} % ${steps}u * ${perRound}u;`,
      );
    else prepare.push(`  let ${quad} = ${unit} % ${quads}u;`, `  let ${depth} = ${unit} / ${quads}u;`);
    const origin = `${left ? "rowBase" : "columnBase"} + ${quad} * 4u`;
    const access = matrix.contiguousDepth
      ? alongDepth(matrix, round, origin, `depthBase + ${depth}`)
      : alongExtent(matrix, round, origin, `depthBase + ${depth}`);

    const inTile = units - first < total ? `${unit} < ${units}u` : undefined;
    const inRange = `depthBase + ${depth} < k`;
    const { type, unpacked } = matrix.quad;
    const isPacked = matrix.vector && type !== "vec4f";
    const zero = isPacked ? `${type}()` : "vec4f()";
    prepare.push(...access.prepare, ...access.values.map((value) => `  var ${value} = ${zero};`));
    load.push(
      ...access.values.map((value) => `  ${value} = ${zero};`),
      `  if (${inTile === undefined ? inRange : `${inTile} && ${inRange}`}) {`,
      ...access.load,
      "  }",
    );
    loadWhole.push(...(inTile === undefined ? access.load : [`  if (${inTile}) {`, ...access.load, "  }"]));
    // Unpacked here and not when they are loaded, which would wait for the memory.
    const ready = access.values.map((value) => (isPacked ? `${value}_unpacked` : value));
    const storeRound = (tile: number) => [
      ...(isPacked ? access.values.map((value, i) => `    let ${ready[i]} = ${unpacked(value)};`) : []),
      ...stagedValues(ready).map(
        (value, i) => `    ${staged(tile)(`(${depth} + ${i}u) * ${pitch} + ${quad}`)} = ${value};`,
      ),
    ];
    stores.push((tile) =>
      inTile === undefined ? storeRound(tile) : [`    if (${inTile}) {`, ...storeRound(tile), "    }"],
    );
  }
  const text = (statements: readonly string[]) => statements.join("\n");
  return {
    ...{ prepare: text(prepare), load: text(load), loadWhole: text(loadWhole) },
    store: (tile) => text(stores.flatMap((round) => round(tile))),
  };
}

/** Consecutive k are neighbours: four loads from four rows, of one k or of a run of four. */
function alongDepth(matrix: MatrixStage, round: number, origin: string, depth: string): Round {
  const at = fours((i) => `${matrix.side}_at_${round}_${i}`);
  const prepare = at.map(
    (name, i) =>
      `  let ${name} = ${matrix.base} + min(${origin} + ${i}u, ${matrix.extent} - 1u) * ${matrix.pitch};`,
  );
  if (matrix.vector) {
    const values = fours((i) => `${matrix.side}_value_${round}_${i}`);
    const load = values.map((value, i) => `    ${value} = ${matrix.quad.load}(${at[i]} + ${depth});`);
    return { prepare, load, values };
  }
  const value = `${matrix.side}_value_${round}`;
  const singles = at.map((name) => `${matrix.load1}(${name} + ${depth})`);
  return { prepare, load: [`    ${value} = vec4f(${singles.join(", ")});`], values: [value] };
}

/** Consecutive rows or columns are neighbours: one run of four of one k. */
function alongExtent(matrix: MatrixStage, round: number, origin: string, depth: string): Round {
  const value = `${matrix.side}_value_${round}`;
  const name = `${matrix.side}_at_${round}`;
  if (matrix.vector)
    return {
      // Packed operands extend to the end of the last quad.
      prepare: [`  let ${name} = ${matrix.base} + min(${origin}, (${matrix.extent} - 1u) & ~3u);`],
      load: [`    ${value} = ${matrix.quad.load}(${name} + (${depth}) * ${matrix.pitch});`],
      values: [value],
    };
  const singles = fours((i) => `${matrix.load1}(${name}_${i} + (${depth}) * ${matrix.pitch})`);
  return {
    prepare: fours(
      (i) => `  let ${name}_${i} = ${matrix.base} + min(${origin} + ${i}u, ${matrix.extent} - 1u);`,
    ),
    load: [`    ${value} = vec4f(${singles.join(", ")});`],
    values: [value],
  };
}

/** Returns the staged value of each step: the register, or a column of the block that four registers hold. */
function stagedValues(values: readonly string[]): readonly string[] {
  if (values.length === 1) return values;
  return fours((i) => `vec4f(${values.map((value) => `${value}.${"xyzw"[i]}`).join(", ")})`);
}

function fours(text: (i: number) => string): string[] {
  return [0, 1, 2, 3].map(text);
}
