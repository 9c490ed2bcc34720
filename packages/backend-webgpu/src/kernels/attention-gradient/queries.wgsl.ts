import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  input,
  lines,
  memoized,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import {
  leftTile,
  matrixStage,
  operandText,
  type ProductTile,
  productSource,
  quadAccess,
  type Stage,
  tileName,
  tileThreads,
} from "../tiles/index.js";
import { KEPT_KEYS, resultText } from "./gradient.wgsl.js";
import { limitsText } from "./sides.wgsl.js";

/** The properties that a kernel is generated for, besides its tile; sizes are parameters. */
export interface QueriesForm {
  readonly dtype: FloatType;
  /** As of `GradientForm`. */
  readonly vector: boolean;
  /** Whether queries do not see keys before i + oldest. What masks hide is 0 in S. */
  readonly window: boolean;
}

/**
 * The gradients of queries, S times the keys, of the S that the pass for keys has left in memory. A product of matrices, of the
 * keys that some query of a tile sees. S has no elements where its keys' tile has met no query: they are masked here.
 */
export const queriesProgram: (tile: ProductTile, form: QueriesForm) => Program = memoized(
  (tile: ProductTile, form: QueriesForm): Program => {
    const { dtype, vector, window } = form;
    const keys = operandText("k", dtype, vector);
    const result = resultText(form);
    const name = "first_results";
    return program<string, string>({
      name: `attention_gradient_sums_${tileName(tile)}_${dtype}${vector ? "_4" : ""}${window ? "_window" : ""}`,
      bindings: {
        changes: input("vec4f"), // matrices x strips x rows x KEPT_KEYS
        k: keys.storage, // matrices x key_length x head_size
        [name]: result.binding, // matrices x rows x head_size
      },
      uniform: true,
      parameters: {
        /** Of batch * kvHeads, from the first one on. */
        ...{ first_matrix: "u32", matrices: "u32" },
        /** heads / kvHeads * queryLength */
        rows: "u32",
        ...{ query_length: "u32", key_length: "u32", head_size: "u32" },
        /** Of S, for each matrix. */
        strips: "u32",
        ...{ scale: "f32", visible: "i32" },
        ...(window ? { oldest: "i32" as const } : {}),
      },
      body: productSource({
        tile,
        declarations: wgsl`
${workgroupIndex}
${floatLayouts[dtype].functions}
${keys.functions}
${result.functionFor(name)}
`,
        prologue: wgsl`
  let tiles = (parameters.rows + ROWS - 1u) / ROWS;
  let chunks = (parameters.head_size + COLUMNS - 1u) / COLUMNS;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * chunks * parameters.matrices) { return; }
  // The last queries see most keys: what starts last should be short.
  let rowBase = (tiles - 1u - group / (parameters.matrices * chunks)) * ROWS;
  let columnBase = group / parameters.matrices % chunks * COLUMNS;
  let own = group % parameters.matrices;
  let matrix = parameters.first_matrix + own;
  let k_base = parameters.k_offset * k_unit + matrix * parameters.key_length * parameters.head_size;
${limitsText("queries", window)}
  let k = select(0u, placeEnd, members > 0u);
  let depthStart = min(placeStart / DEPTH * DEPTH, k);`,
        left: changesStage(tile, window),
        right: matrixStage(tile, {
          ...{
            side: "right",
            contiguousDepth: false,
            vector,
            load1: "k_load1",
            quad: quadAccess("k", dtype),
          },
          ...{ base: "k_base", pitch: "parameters.head_size", extent: "parameters.head_size" },
        }),
        store: (row, column, quad) =>
          `if (${row} < parameters.rows) { store_${name}(matrix * parameters.rows + ${row}, ${column}, ${quad} * parameters.scale); }`,
      }),
    });
  },
);

/** Stages S, strip by strip, with zeros where there is nothing. An invocation brings four keys of four queries. */
function changesStage(tile: ProductTile, window: boolean): Stage {
  const steps = tile.depth / 4;
  const { total } = tileThreads(tile);
  const rounds = ((tile.rows / 4) * steps) / total;
  if (tile.depth !== KEPT_KEYS || !Number.isInteger(rounds))
    throw new RangeError(`${tileName(tile)} does not divide evenly`);
  const each = (line: (round: number, i: number) => string) =>
    lines(rounds, (round) => lines(4, (i) => line(round, i)));
  const value = (round: number, i: number) => `left_value_${round}_${i}`;
  const quad = (round: number) => `left_quad_${round}`;
  const row = (round: number, i: number) =>
    `min(rowBase + ${quad(round)} * 4u + ${i}u, parameters.rows - 1u)`;
  const inWindow = window ? " & (apart >= vec4i(parameters.oldest))" : "";
  const load = `  {
    let left_strip = depthBase / DEPTH * parameters.rows * ${steps}u;
${each((round, i) => `    ${value(round, i)} = changes[left_at_${round}_${i} + left_strip];`)}
  }`;
  return {
    prepare: `  let left_depth = lane % ${steps}u * 4u;
${lines(rounds, (round) => `  let ${quad(round)} = (lane + ${round * total}u) / ${steps}u;`)}
${each((round, i) => `  let left_at_${round}_${i} = parameters.changes_offset + (own * parameters.strips * parameters.rows + ${row(round, i)}) * ${steps}u + left_depth / 4u;\n  var ${value(round, i)} = vec4f();`)}`,
    ...{ load, loadWhole: load },
    // Masked here and not when they are loaded, which would wait for the memory.
    store: (to) => `    if (depthBase < wholeStart || depthBase + DEPTH > wholeEnd) {
      let columns = vec4i(i32(depthBase + left_depth)) + vec4i(0, 1, 2, 3);
${each((round, i) => `      { let apart = columns - vec4i(i32(${row(round, i)} % parameters.query_length)); ${value(round, i)} = select(vec4f(), ${value(round, i)}, (columns < vec4i(i32(k))) & (apart <= vec4i(parameters.visible))${inWindow}); }`)}
    }
${lines(rounds, (round) =>
  lines(4, (step) => {
    const values = [0, 1, 2, 3].map((i) => `${value(round, i)}.${"xyzw"[step]}`).join(", ");
    return `    ${leftTile(to)(`(left_depth + ${step}u) * LEFT_PITCH + ${quad(round)}`)} = vec4f(${values});`;
  }),
)}`,
  };
}
