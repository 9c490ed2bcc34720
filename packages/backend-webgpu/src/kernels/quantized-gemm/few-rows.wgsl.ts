import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import type { FewRowsTile } from "./few-rows-tile.js";
import {
  type Finish,
  finishBindings,
  finishName,
  finishParameters,
  finishText,
  stored,
} from "./finish.wgsl.js";
import {
  quadOfRun,
  type WeightForm,
  weightBindings,
  weightFunctions,
  weightName,
  weightParameters,
} from "./weights.wgsl.js";

export interface FewRowsForm extends Omit<WeightForm, "run">, Finish {
  /** Every run of four along the rows of A is whole and aligned. */
  readonly vectorA: boolean;
}

export type FewRowsParameter = "m" | "n" | "k" | "runs" | "block_shift" | keyof typeof finishParameters;

/** Invocations that are next to each other in memory, whatever the subgroups of a device. */
const NEIGHBOURS = 32;

/** Quads of workgroup memory that are in different banks. */
const BANKS = 8;

/** Partial sums that one invocation adds up by itself. */
const ADDED = 8;

/** Bytes of workgroup memory with which a multiprocessor runs four workgroups at a time (docs/tuning.md). */
const SMALL_BYTES = 12_288;

/** Numbers that follow from a tile. */
function layout({ rows, columns, across, threads, run }: FewRowsTile) {
  const groups = threads / across;
  const perRow = across * columns;
  const quads = run / 4;
  /** Groups among neighbours. */
  const along = NEIGHBOURS / across;
  /** From the staged quads of A of one group to the next: neighbouring groups are in different banks. */
  const pitch = along * quads > BANKS ? quads | 1 : quads;
  /** From the partial sums of one result to the next, likewise. */
  const sumPitch = groups | 1;
  const stagedQuads = rows * groups * pitch;
  /** Rows whose partial sums are added up at a time. */
  const room = Math.floor((SMALL_BYTES - 16 * stagedQuads) / (4 * perRow * sumPitch));
  const together = Math.min(rows, Math.max(1, room));
  return { groups, perRow, quads, along, pitch, sumPitch, stagedQuads, together };
}

/** Workgroup memory in bytes. */
export function fewRowsBytes(tile: FewRowsTile): number {
  const { stagedQuads, perRow, sumPitch, together } = layout(tile);
  return 16 * stagedQuads + 4 * together * perRow * sumPitch;
}

/**
 * A few rows of A times some rows of B. The invocations of a workgroup form groups; in each step, a group takes one run
 * of k. Each of its invocations multiplies the weights of that run of some rows of B, which it unpacks in registers, by
 * all rows of A, from workgroup memory, where the invocations of a group read the same quads. Groups next to each other
 * read neighbouring runs of B. The sum of a run is scaled, not its weights. At the end the sums of the groups are added
 * up.
 */
export function fewRowsProgram(tile: FewRowsTile, form: FewRowsForm): Program<string, FewRowsParameter> {
  const { rows, columns, across, threads, run } = tile;
  const { groups, perRow, along, sumPitch, stagedQuads, together } = layout(tile);
  const { dtype, vectorA } = form;
  const weights: WeightForm = { ...form, run };
  const values = floatLayouts[dtype];
  const size = `${rows}x${columns}_${across}of${threads}${tile.ahead ? "_ahead" : ""}`;
  const name = `quantized_gemm_${size}_${weightName(weights)}`;
  return program<string, FewRowsParameter>({
    name: `${name}${vectorA ? "_v" : ""}_${dtype}${finishName(form)}`,
    bindings: {
      a: input(vectorA ? values.quad : values.single),
      ...weightBindings(weights),
      ...finishBindings(form),
    },
    parameters: {
      ...{ m: "u32", n: "u32", k: "u32" },
      /** Of a row of B. */
      runs: "u32",
      ...weightParameters,
      ...finishParameters,
    },
    uniform: true,
    body: wgsl`
${workgroupIndex}
${values.functions}
${form.scaleType === dtype ? "" : floatLayouts[form.scaleType].functions}
${weightFunctions(weights)}
var<workgroup> staged: array<vec4f, ${stagedQuads}>;
var<workgroup> partial: array<f32, ${together * perRow * sumPitch}>;

/// Four elements of a row of A; zeros past its end.
fn quad_of_a(row: u32, p: u32) -> vec4f {
${
  vectorA
    ? `  if (p >= parameters.k) { return vec4f(); }
  let quad = a[parameters.a_offset + ((row * parameters.k + p) >> 2u)];
  return ${values.unpacked("quad")};`
    : `  let at = parameters.a_offset + row * parameters.k + p;
  var quad = vec4f();
  for (var i = 0u; i < 4u; i++) {
    let place = at + i;
    if (p + i < parameters.k) { quad[i] = ${values.load("a", "place")}; }
  }
  return quad;`
}
}

/// The sum of a result of the workgroup, by its place among those that are added up together.
fn total_of(place: u32) -> f32 {
  var total = 0.0;
  for (var i = 0u; i < ${groups}u; i += ${Math.min(ADDED, groups)}u) { total += partial[place * ${sumPitch}u + i]; }
  return total;
}

${finishText(form)}
@compute @workgroup_size(${threads})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups);
  let across = (parameters.n + ${perRow - 1}u) / ${perRow}u;
  let first_row = index / across * ${rows}u;
  if (first_row >= parameters.m) { return; }
  let first_column = index % across * ${perRow}u;
  let neighbour = lane % ${NEIGHBOURS}u;
  let group = lane / ${NEIGHBOURS}u * ${along}u + neighbour % ${along}u;
  let own = neighbour / ${along}u * ${columns}u;
${lines(columns, (c) => `  let runs_${c} = min(first_column + own + ${c}u, parameters.n - 1u) * parameters.runs;`)}
${lines(rows * columns, (i) => `  var sum_${i} = 0.0;`)}
  let to_block = parameters.block_shift - ${Math.log2(run)}u;
${mainLoop(tile, weights)}
${addedUp(tile, form)}
}
`,
  });
}

/**
 * In each step every group takes a run. With many rows, invocations have enough to compute while the next step is loaded;
 * with few, the registers that it takes leave fewer invocations to wait for memory together.
 */
function mainLoop(tile: FewRowsTile, weights: WeightForm): string {
  const { rows, columns, threads, run, ahead = false } = tile;
  const { groups, quads, pitch } = layout(tile);
  const perStep = groups * quads;
  const ofStep = rows * perStep;
  const each = Math.ceil(ofStep / threads);
  const place = (i: number) => `(lane + ${i * threads}u)`;
  const guarded = (i: number, text: string) =>
    (i + 1) * threads > ofStep ? `    if (${place(i)} < ${ofStep}u) { ${text} }` : `    ${text}`;
  const quadOfA = (i: number) => {
    const row = `min(first_row + ${place(i)} / ${perStep}u, parameters.m - 1u)`;
    return `quad_of_a(${row}, 4u * (loaded * ${quads}u + ${place(i)} % ${perStep}u))`;
  };
  const stage = (i: number) =>
    guarded(i, `staged[${place(i)} / ${quads}u * ${pitch}u + ${place(i)} % ${quads}u] = quad_${i};`);
  const unpacked = (c: number, j: number) =>
    `      let steps_${c} = ${quadOfRun(weights, `own_run_${c}`, j, `own_magic_${c}`)};`;
  const products = (r: number, c: number) =>
    lines(4, (i) => `        part_${r * columns + c} += quad.${"xyzw"[i]} * steps_${c}.${"xyzw"[i]};`);
  const load = `    {
      // What lies past k is multiplied by zeros of A, and by no scale, which may be infinite.
      let at = min(loaded + group, parameters.runs - 1u);
      let is_inside = (loaded + group) * ${run}u < parameters.k;
${lines(
  columns,
  (c) => `      let block_${c} = (runs_${c} + at) >> to_block;
      run_${c} = run_of(runs_${c} + at);
      scale_${c} = select(0.0, scale_of(block_${c}), is_inside);
      magic_${c} = magic_of(block_${c});`,
)}
    }
${lines(each, (i) => guarded(i, `quad_${i} = ${quadOfA(i)};`))}`;
  return wgsl`
  let own_quads = group * ${pitch}u;
${lines(columns, (c) => `  var run_${c}: Run;\n  var scale_${c}: f32;\n  var magic_${c}: vec4f;`)}
${lines(each, (i) => `  var quad_${i}: vec4f;`)}
  var loaded = 0u;
${ahead ? load : ""}
  for (var start = 0u; start < parameters.runs; start += ${groups}u) {
${ahead ? "" : `    loaded = start;\n${load}`}
    workgroupBarrier();
${lines(each, stage)}
${lines(
  columns,
  (c) => `    let own_run_${c} = run_${c};
    let own_scale_${c} = scale_${c};
    let own_magic_${c} = magic_${c};`,
)}
    workgroupBarrier();
${ahead ? `    loaded = start + ${groups}u;\n${load}` : ""}
${lines(rows * columns, (i) => `    var part_${i} = 0.0;`)}
${lines(
  quads,
  (j) => `    {
${lines(columns, (c) => unpacked(c, j))}
${lines(
  rows,
  (r) => `      {
        let quad = staged[own_quads + ${r * groups * pitch + j}u];
${lines(columns, (c) => products(r, c))}
      }`,
)}
    }`,
)}
${lines(rows * columns, (i) => `    sum_${i} += own_scale_${i % columns} * part_${i};`)}
  }`;
}

/** The sums of all groups become results, some rows at a time. */
function addedUp(tile: FewRowsTile, form: FewRowsForm): string {
  const { rows, columns, threads } = tile;
  const { groups, perRow, sumPitch, together } = layout(tile);
  const perLane = Math.min(ADDED, groups);
  const parts = groups / perLane;
  return lines(Math.ceil(rows / together), (batch) => {
    const first = batch * together;
    const count = Math.min(together, rows - first);
    return `  workgroupBarrier();
${lines(count, (r) =>
  lines(
    columns,
    (c) => `  partial[(own + ${r * perRow + c}u) * ${sumPitch}u + group] = sum_${(first + r) * columns + c};`,
  ),
)}
  workgroupBarrier();
  for (var i = lane; i < ${count * perRow * parts}u; i += ${threads}u) {
    let begin = i / ${parts}u * ${sumPitch}u + i % ${parts}u * ${perLane}u;
    var total = 0.0;
    for (var j = 0u; j < ${perLane}u; j++) { total += partial[begin + j]; }
    partial[begin] = total;
  }
  workgroupBarrier();
  for (var i = lane; i < ${count * perRow}u; i += ${threads}u) {
    let row = first_row + ${first}u + i / ${perRow}u;
    let column = first_column + i % ${perRow}u;
    if (row < parameters.m && column < parameters.n) {
${stored(form)}
    }
  }`;
  });
}
