import type { Activation, FloatType } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { activated, activationText, epilogueName } from "../epilogue.wgsl.js";
import {
  loadEight,
  type WeightForm,
  weightBindings,
  weightFunctions,
  weightName,
  weightParameters,
} from "./weights.wgsl.js";

/** Rows of A that a workgroup takes. */
export type Rows = 1 | 2 | 4 | 8;

/** Columns of C that each group of lanes takes. */
export type Columns = 4 | 8;

/** How results leave: f32 to C or to scratch, or two f16 in each word of C. */
export type Target = "single" | "pairs";

export interface FewRowsForm extends WeightForm {
  readonly dtype: FloatType;
  readonly rows: Rows;
  readonly columns: Columns;
  /** B begins with a whole word. */
  readonly alignedB: boolean;
  /** Every run of four along the rows of A is whole and aligned. */
  readonly vectorA: boolean;
  readonly target: Target;
  readonly bias: boolean;
  readonly activation: Activation | undefined;
}

/** Invocations that share a sum, along k; and groups of these in a workgroup. */
const LANES = 32;
const GROUPS = 4;
const THREADS = LANES * GROUPS;

/** Lanes whose partial sums one invocation adds up by itself. */
const ADDED = 8;

/** Columns of C that a workgroup computes. */
export function columnsPerWorkgroup(columns: Columns): number {
  return GROUPS * columns;
}

/** From so many rows on, A is staged in workgroup memory. */
const STAGED_ROWS = 4;

export type FewRowsParameter = "m" | "n" | "k" | "eighths" | "pitch" | "block_shift";

/**
 * A few rows of A times some rows of B. A lane takes every 32nd eighth (eight neighbouring weights) of the rows of B of
 * its group and multiplies their weights by each row of A, so that lanes read neighbouring words of B. Rows of A come
 * from workgroup memory if there are several: there a lane finds its two quads where no other lane's bank is, while in
 * memory quads of neighbouring lanes are 32 bytes apart. Scales are applied to sums of four products.
 */
export function fewRowsProgram(form: FewRowsForm): Program<string, FewRowsParameter> {
  const { dtype, rows, columns, alignedB, vectorA, target, bias, activation } = form;
  const layout = floatLayouts[dtype];
  const isPairs = target === "pairs";
  const isStaged = rows >= STAGED_ROWS;
  const perRow = GROUPS * columns;
  const name = `quantized_gemm_${rows}x${columns}_${weightName(form)}`;
  return program<string, FewRowsParameter>({
    name: `${name}${alignedB ? "" : "_byte"}${vectorA ? "_v" : ""}_${dtype}${isPairs ? "_pairs" : ""}${epilogueName(form)}`,
    bindings: {
      a: input(vectorA ? layout.quad : layout.single),
      ...weightBindings(form),
      ...(bias ? { bias: input(layout.single) } : {}),
      c: output(isPairs ? "half" : "f32"),
    },
    parameters: {
      ...{ m: "u32", n: "u32", k: "u32" },
      /** Of a row of B. */
      eighths: "u32",
      /** Elements from one row of the results to the next. */
      pitch: "u32",
      ...weightParameters,
    },
    body: wgsl`
${workgroupIndex}
${layout.functions}
${form.scaleType === dtype ? "" : floatLayouts[form.scaleType].functions}
${activationText(activation, dtype)}
${weightFunctions(form)}
${loadEight(form, alignedB)}
${isStaged ? `var<workgroup> staged: array<vec4f, ${rows * 2 * LANES}>;` : ""}
/// Of one row, with a gap after each column so that neighbouring columns are in different banks.
var<workgroup> partial: array<f32, ${columns * (THREADS + 1)}>;
var<workgroup> added: array<f32, ${perRow * (LANES / ADDED)}>;

/// Four elements of a row of A; zeros past its end.
fn quad_of_a(row: u32, p: u32) -> vec4f {
${
  vectorA
    ? `  if (p >= parameters.k) { return vec4f(); }
  let quad = a[parameters.a_offset + ((row * parameters.k + p) >> 2u)];
  return ${layout.unpacked("quad")};`
    : `  let at = parameters.a_offset + row * parameters.k + p;
  var quad = vec4f();
  for (var i = 0u; i < 4u; i++) {
    let place = at + i;
    if (p + i < parameters.k) { quad[i] = ${layout.load("a", "place")}; }
  }
  return quad;`
}
}

fn finished(total: f32, column: u32) -> f32 {
  var value = total;
  ${
    bias
      ? `let bias_at = parameters.bias_offset + column;
  value += ${layout.load("bias", "bias_at")};`
      : ""
  }
  return ${activated(activation, "value")};
}

/// The sum of column number \`index\` of the workgroup, of the row whose sums were added up last.
fn total_of(index: u32) -> f32 {
  let at = index * ${LANES / ADDED}u;
  return ${Array.from({ length: LANES / ADDED }, (_, i) => `added[at + ${i}u]`).join(" + ")};
}

@compute @workgroup_size(${THREADS})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups);
  let across = (parameters.n + ${perRow - 1}u) / ${perRow}u;
  let row_group = index / across;
  let first_row = row_group * ${rows}u;
  if (first_row >= parameters.m) { return; }
  let slice = lane & ${LANES - 1}u;
  let group = lane / ${LANES}u;
  let first_column = (index - row_group * across) * ${perRow}u;
  let column = first_column + group * ${columns}u;
${lines(columns, (c) => `  let first_${c} = min(column + ${c}u, parameters.n - 1u) * parameters.eighths;`)}
${lines(rows * columns, (i) => `  var sum_${i} = 0.0;`)}
  let to_block = parameters.block_shift - 3u;
${isStaged ? stagedLoop(form) : plainLoop(form)}
${lines(
  rows,
  (r) => `  workgroupBarrier();
${lines(columns, (c) => `  partial[${c * (THREADS + 1)}u + lane] = sum_${r * columns + c};`)}
  workgroupBarrier();
  for (var i = lane; i < ${(perRow * LANES) / ADDED}u; i += ${THREADS}u) {
    // Neighbouring invocations take neighbouring columns of a group.
    let c = i % ${columns}u;
    let part = i / ${columns}u;
    let begin = c * ${THREADS + 1}u + part * ${ADDED}u;
    var total = 0.0;
    for (var j = 0u; j < ${ADDED}u; j++) { total += partial[begin + j]; }
    let own_group = part / ${LANES / ADDED}u;
    added[(own_group * ${columns}u + c) * ${LANES / ADDED}u + part % ${LANES / ADDED}u] = total;
  }
  workgroupBarrier();
  if (lane < ${perRow}u && first_row + ${r}u < parameters.m && first_column + lane < parameters.n) {
    let own = first_column + lane;
    let place = parameters.c_offset + (first_row + ${r}u) * parameters.pitch + own;
    ${
      isPairs
        ? `if ((lane & 1u) == 0u) {
      c[place >> 1u] = pack_halves(finished(total_of(lane), own), finished(total_of(lane + 1u), own + 1u));
    }`
        : "c[place] = finished(total_of(lane), own);"
    }
  }`,
)}
}
`,
  });
}

/**
 * Four weights of each column, the first or the last ones of an eighth, times the quads of A beside them: `quad` of each
 * row. Half an eighth at a time leaves registers to more invocations.
 */
function products({ rows, columns }: FewRowsForm, half: "low" | "high", quad: (r: number) => string): string {
  return `    {
${lines(rows, (r) => `      let quad_${r} = ${quad(r)};`)}
${lines(
  columns,
  (c) => `      let steps_${c} = steps_of(${half}_word(stored_${c}), magic_${c});
${lines(rows, (r) => `      sum_${r * columns + c} += scale_${c} * dot(quad_${r}, steps_${c});`)}`,
)}
    }`;
}

function plainLoop(form: FewRowsForm): string {
  const { rows, columns } = form;
  return wgsl`
${lines(rows, (r) => `  let row_${r} = min(first_row + ${r}u, parameters.m - 1u);`)}
  for (var at = slice; at < parameters.eighths; at += ${LANES}u) {
${lines(columns, (c) => `    let stored_${c} = eighth_of(first_${c} + at);`)}
${lines(
  columns,
  (c) => `    let block_${c} = (first_${c} + at) >> to_block;
    let scale_${c} = scale_of(block_${c});
    let magic_${c} = magic_of(block_${c});`,
)}
${products(form, "low", (r) => `quad_of_a(row_${r}, 8u * at)`)}
${products(form, "high", (r) => `quad_of_a(row_${r}, 8u * at + 4u)`)}
  }`;
}

/** While a part of A is multiplied, what is needed for the next one is on its way to registers. */
function stagedLoop(form: FewRowsForm): string {
  const { rows, columns, bits } = form;
  const each = (rows * 2 * LANES) / THREADS;
  const row = (i: number) => `(lane + ${i * THREADS}u) / ${2 * LANES}u`;
  const loads = wgsl`
    // What lies past the end of a row of B is multiplied by zeros of A.
    let at = min(start + slice, parameters.eighths - 1u);
${lines(
  columns,
  (c) => `    next_stored_${c} = eighth_of(first_${c} + at);
    let next_block_${c} = (first_${c} + at) >> to_block;
    next_scale_${c} = scale_of(next_block_${c});
    next_magic_${c} = magic_of(next_block_${c});`,
)}
${lines(
  each,
  (i) =>
    `    next_quad_${i} = quad_of_a(min(first_row + ${row(i)}, parameters.m - 1u), 8u * start + 4u * quad);`,
)}`;
  return wgsl`
  let quad = lane % ${2 * LANES}u;
  let to_stage = (quad & 1u) * ${LANES}u + (quad >> 1u);
${lines(
  columns,
  (c) => `  var next_stored_${c}: ${bits === 4 ? "u32" : "vec2u"};
  var next_scale_${c}: f32;
  var next_magic_${c}: f32;`,
)}
${lines(each, (i) => `  var next_quad_${i}: vec4f;`)}
  var start = 0u;
  {${loads}
  }
  while (start < parameters.eighths) {
${lines(
  columns,
  (c) => `    let stored_${c} = next_stored_${c};
    let scale_${c} = next_scale_${c};
    let magic_${c} = next_magic_${c};`,
)}
    workgroupBarrier();
${lines(each, (i) => `    staged[${row(i)} * ${2 * LANES}u + to_stage] = next_quad_${i};`)}
    workgroupBarrier();
    start += ${LANES}u;
    if (start < parameters.eighths) {${loads}
    }
${products(form, "low", (r) => `staged[${2 * r * LANES}u + slice]`)}
${products(form, "high", (r) => `staged[${(2 * r + 1) * LANES}u + slice]`)}
  }`;
}
