import {
  halfFunctions,
  input,
  lines,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { SIDE, UNIT } from "../tiles/index.js";
import { MATRIX_RUN, matrixLayout, type QuantizedMatrixTile } from "./matrix-tile.js";
import {
  quadOfRun,
  type WeightForm,
  weightBindings,
  weightFunctions,
  weightName,
  weightParameters,
} from "./weights.wgsl.js";

export type QuantizedMatrixForm = Pick<WeightForm, "bits" | "scaleType" | "hasZeroPoints">;

export type QuantizedMatrixParameter = "m" | "n" | "k" | "runs" | "parts" | "part_depth" | "block_shift";

/**
 * f16 rows of A, no more than the tile has, times some rows of B, on matrix units. Weights become f16 in workgroup
 * memory, next to A: each is unpacked once, for all rows. k is a multiple of 32, and A and B are aligned to 16 bytes.
 * Sums are not finished (`joinProgram` does that), as workgroups may share them, each with a part of k.
 */
export function quantizedMatrixProgram(
  tile: QuantizedMatrixTile,
  form: QuantizedMatrixForm,
): Program<string, QuantizedMatrixParameter> {
  const { rows, columns, subgroups, panels, depth, ahead } = tile;
  const { threads, sharing, own, pitch, step, unitsOfA, unitsOfB } = matrixLayout(tile);
  const weights: WeightForm = { ...form, run: MATRIX_RUN, alignedB: true };
  const [down, across] = [rows / SIDE, own / SIDE];
  const size = `${rows}x${columns}_${panels}x${depth}_${subgroups}by${ahead}`;
  const name = `quantized_gemm_matrices_${size}_${weightName(weights)}`;
  const left = (i: number, at: number) =>
    `subgroupMatrixLoad<subgroup_matrix_left<f16, ${SIDE}, ${SIDE}>, row_major>(&a_panels[panel], ${SIDE * i * pitch + at}u, ${pitch}u)`;
  const right = (j: number, at: number) =>
    `subgroupMatrixLoad<subgroup_matrix_right<f16, ${SIDE}, ${SIDE}>, col_major>(&b_panels[own_panel], ${SIDE * j * pitch + at}u, ${pitch}u)`;
  const multiplied = lines(depth / SIDE, (s) => {
    const at = (SIDE / UNIT) * s;
    return `      {
${lines(down, (i) => `        let left_${i} = ${left(i, at)};`)}
${lines(
  across,
  (j) => `        let right_${j} = ${right(j, at)};
${lines(down, (i) => `        sum_${i}_${j} = subgroupMatrixMultiplyAccumulate(left_${i}, right_${j}, sum_${i}_${j});`)}`,
)}
      }`;
  });
  const staging = stagingText(tile, weights);
  return program<string, QuantizedMatrixParameter>({
    name,
    enable: ["f16", "subgroups", "chromium_experimental_subgroup_matrix"],
    directives: ["diagnostic(off, chromium.subgroup_matrix_uniformity);"],
    bindings: {
      a: input("half8"),
      ...weightBindings(weights),
      sums: output("f32"), // parts x m x n
    },
    parameters: {
      ...{ m: "u32", n: "u32", k: "u32" },
      /** Of a row of B. */
      runs: "u32",
      /** How many workgroups share a sum, and the steps of k of each. */
      ...{ parts: "u32", part_depth: "u32" },
      ...weightParameters,
    },
    uniform: true,
    body: wgsl`
${workgroupIndex}
${halfFunctions}
${weightFunctions(weights)}
var<workgroup> a_panels: array<array<vec4u, ${unitsOfA}>, ${panels}>;
var<workgroup> b_panels: array<array<vec4u, ${unitsOfB}>, ${subgroups}>;

fn unit_of(low: vec4f, high: vec4f, scale: f32) -> vec4u {
  let a = low * scale;
  let b = high * scale;
  return vec4u(pack_halves(a.x, a.y), pack_halves(a.z, a.w), pack_halves(b.x, b.y), pack_halves(b.z, b.w));
}

@compute @workgroup_size(${threads})
fn main(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
  @builtin(subgroup_id) subgroup: u32,
) {
  let index = workgroup_index(workgroup, workgroups);
  let tiles = (parameters.n + ${columns - 1}u) / ${columns}u;
  let part = index / tiles;
  if (part >= parameters.parts) { return; }
  let first_column = index % tiles * ${columns}u;
  let begin = part * parameters.part_depth;
  let end = min(begin + parameters.part_depth, parameters.k);
  let panel = subgroup / ${sharing}u;
  let own_panel = subgroup;
  let to_block = parameters.block_shift - ${Math.log2(MATRIX_RUN)}u;
${staging.places}
${lines(down, (i) => lines(across, (j) => `  var sum_${i}_${j}: subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>;`))}
  var loaded = begin;
${staging.load}
  for (var start = begin; start < end; start += ${ahead * step}u) {
${staging.copy}
    loaded = start + ${ahead * step}u;
${staging.load}
${lines(
  ahead,
  (s) => `    if (start + ${s * step}u < end) {
      workgroupBarrier();
${staging.store(s)}
      workgroupBarrier();
${multiplied}
    }`,
)}
  }
${storedSums(tile)}
}
`,
  });
}

/** The texts that bring runs of B, and units of A, from memory through registers to workgroup memory. */
function stagingText(tile: QuantizedMatrixTile, weights: WeightForm) {
  const { rows, columns, depth, ahead } = tile;
  const { threads, sharing, own, pitch, step } = matrixLayout(tile);
  const runs = step / MATRIX_RUN;
  const units = step / UNIT;
  const [ofB, ofA] = [columns * runs, rows * units];
  /** Of a panel. */
  const [runsDeep, unitsDeep] = [depth / MATRIX_RUN, depth / UNIT];
  const rounds = (total: number, line: (i: number) => string) => lines(Math.ceil(total / threads), line);
  const guard = (total: number, i: number) =>
    (i + 1) * threads > total ? `if (lane + ${i * threads}u < ${total}u) {` : "{";
  // Eight neighbours have eight rows, and those after them what follows along k: so they store to different banks, and
  // read whole sectors of memory.
  const row = (i: number, along: number) => `(lane + ${i * threads}u) / ${8 * along}u * 8u + lane % 8u`;
  const deep = (i: number, along: number) => `(lane + ${i * threads}u) % ${8 * along}u / 8u`;
  const each = (line: (s: number) => string) => lines(ahead, line);
  return {
    places: `${rounds(
      ofB,
      (i) => `  let column_${i} = ${row(i, runs)};
  let run_deep_${i} = ${deep(i, runs)};
  let b_panel_${i} = run_deep_${i} / ${runsDeep}u * ${sharing}u + column_${i} / ${own}u;
  let b_at_${i} = column_${i} % ${own}u * ${pitch}u + run_deep_${i} % ${runsDeep}u * ${MATRIX_RUN / UNIT}u;
  let b_row_${i} = min(first_column + column_${i}, parameters.n - 1u) * parameters.runs;`,
    )}
${rounds(
  ofA,
  (i) => `  let row_${i} = ${row(i, units)};
  let unit_deep_${i} = ${deep(i, units)};
  let a_panel_${i} = unit_deep_${i} / ${unitsDeep}u;
  let a_at_${i} = row_${i} * ${pitch}u + unit_deep_${i} % ${unitsDeep}u;
  let a_row_${i} = parameters.a_offset + min(row_${i}, parameters.m - 1u) * (parameters.k / ${UNIT}u);`,
)}
${each(
  (
    s,
  ) => `${rounds(ofB, (i) => `  var run_${i}_${s}: Run;\n  var scale_${i}_${s}: f32;\n  var magic_${i}_${s}: vec4f;`)}
${rounds(ofA, (i) => `  var unit_${i}_${s}: vec4u;`)}`,
)}`,

    // Past the end of k the last ones once more, times zero.
    load: each(
      (s) => `${rounds(
        ofB,
        (i) => `    ${guard(ofB, i)}
      let at = (loaded + ${s * step}u) / ${MATRIX_RUN}u + run_deep_${i};
      let run = b_row_${i} + min(at, parameters.runs - 1u);
      run_${i}_${s} = run_of(run);
      scale_${i}_${s} = select(0.0, scale_of(run >> to_block), at * ${MATRIX_RUN}u < parameters.k);
      magic_${i}_${s} = magic_of(run >> to_block);
    }`,
      )}
${rounds(
  ofA,
  (i) => `    ${guard(ofA, i)}
      let at = (loaded + ${s * step}u) / ${UNIT}u + unit_deep_${i};
      let last = parameters.k / ${UNIT}u - 1u;
      unit_${i}_${s} = select(vec4u(), a[a_row_${i} + min(at, last)], at <= last);
    }`,
)}`,
    ),

    copy: each(
      (
        s,
      ) => `${rounds(ofB, (i) => `    let own_run_${i}_${s} = run_${i}_${s};\n    let own_scale_${i}_${s} = scale_${i}_${s};\n    let own_magic_${i}_${s} = magic_${i}_${s};`)}
${rounds(ofA, (i) => `    let own_unit_${i}_${s} = unit_${i}_${s};`)}`,
    ),

    store: (s: number) => {
      const unit = (i: number, u: number) => {
        const [low, high] = [2 * u, 2 * u + 1].map((quad) =>
          quadOfRun(weights, `own_run_${i}_${s}`, quad, `own_magic_${i}_${s}`),
        );
        return `        b_panels[b_panel_${i}][b_at_${i} + ${u}u] = unit_of(${low}, ${high}, own_scale_${i}_${s});`;
      };
      return `${rounds(
        ofB,
        (i) => `      ${guard(ofB, i)}
${lines(MATRIX_RUN / UNIT, (u) => unit(i, u))}
      }`,
      )}
${rounds(ofA, (i) => `      ${guard(ofA, i)} a_panels[a_panel_${i}][a_at_${i}] = own_unit_${i}_${s}; }`)}`;
    },
  };
}

/** Adds up the sums of the panels, strip by strip of 16 rows, and stores them. */
function storedSums(tile: QuantizedMatrixTile): string {
  const { rows, columns, panels } = tile;
  const { threads, sharing, own, resultPitch } = matrixLayout(tile);
  return lines(
    rows / SIDE,
    (strip) => `  workgroupBarrier();
${lines(
  own / SIDE,
  (j) =>
    `  subgroupMatrixStore<row_major>(&b_panels[own_panel], ${(j * SIDE) / 4}u, sum_${strip}_${j}, ${resultPitch}u);`,
)}
  workgroupBarrier();
  for (var i = lane; i < ${SIDE * columns}u; i += ${threads}u) {
    let row = ${strip * SIDE}u + i / ${columns}u;
    let column = i % ${columns}u;
    if (row < parameters.m && first_column + column < parameters.n) {
      let at = i / ${columns}u * ${resultPitch}u + column % ${own}u / 4u;
      var sum = 0.0;
${lines(panels, (p) => `      sum += bitcast<f32>(b_panels[${p * sharing}u + column / ${own}u][at][column & 3u]);`)}
      sums[parameters.sums_offset + (part * parameters.m + row) * parameters.n + first_column + column] = sum;
    }
  }`,
  );
}
