import type { DType, ReduceKind } from "@backplane/core";
import { type ElementType, input, output, type Program, program } from "../../program.js";
import { halfFunctions, linearBuiltins, wgsl, workgroupIndex } from "../../wgsl.js";

/** Invocations of a workgroup: `lanes` for each of `REDUCE_WORKGROUP / lanes` outputs. */
export const REDUCE_WORKGROUP: 256 = 256;

/** Loads in flight per invocation. */
const UNROLL = 4;

/** How two values become one. A mean is a sum that is divided at its end. */
export type ReduceOperator = Exclude<ReduceKind, "mean">;

/** Few numbers, because each makes another program to compile. */
export type LaneCount = 1 | 4 | 16 | 64 | 256;
export const laneCounts: readonly LaneCount[] = [1, 4, 16, 64, REDUCE_WORKGROUP];

/** What one generated kernel does; everything else is a parameter. */
export interface ReduceTile {
  readonly dtype: DType;
  readonly operator: ReduceOperator;
  /** Invocations that share one output. */
  readonly lanes: LaneCount;
  /** What neighbouring invocations read: neighbours along the reduced axes, or along the kept ones. */
  readonly along: "reduced" | "kept";
  /** Whether a load takes 4 f32 or 8 f16 along the innermost axis, which then is a reduced one. */
  readonly wide: boolean;
  /** Whether there is but one reduced axis, so that places need no division. */
  readonly single: boolean;
  /** Rows of the table of axes: the kept ones, then the reduced ones. */
  readonly axes: number;
}

/** Elements that one load takes. */
export function elementsPerLoad({ dtype, wide }: Pick<ReduceTile, "dtype" | "wide">): number {
  if (!wide) return 1;
  return dtype === "f32" ? 4 : 8;
}

type ReduceParameter =
  | "outputs"
  | "output_blocks"
  | "length"
  | "segment_length"
  | "kept_rank"
  | "rank"
  | LastParameter;
type LastParameter = "identity" | "divisor" | "axes";

/**
 * output[segment * outputs + o] = operator over the reduced elements of output o that lie in the segment.
 * A workgroup does one segment of some neighbouring outputs.
 *
 * Lengths, extents and strides count loads.
 */
export function reduceProgram(tile: ReduceTile): Program<"data" | "output", ReduceParameter> {
  const { dtype, operator, lanes, along, wide, single, axes } = tile;
  const value = wide ? "vec4<f32>" : "f32";
  const place = single
    ? (index: string) => `base + (${index}) * stride`
    : (index: string) => `base + place_of(${index}, parameters.kept_rank, parameters.rank)`;
  const unrolled = Array.from({ length: UNROLL }, (_, i) => i);
  const each = (text: (i: number) => string, indent: string) =>
    unrolled.map((i) => indent + text(i)).join("\n");
  return program({
    name: ["reduce", operator, dtype, along, lanes, wide ? "wide" : "narrow", single ? "single" : axes].join(
      "_",
    ),
    bindings: { data: input(storageType(tile)), output: output("f32") },
    parameters: {
      ...{ outputs: "u32", output_blocks: "u32", length: "u32", segment_length: "u32" },
      ...{ kept_rank: "u32", rank: "u32", identity: "f32", divisor: "f32", axes: { rows: axes } },
    },
    body: wgsl`
const LANES = ${lanes}u;
const SLOTS = ${REDUCE_WORKGROUP / lanes}u;

${lanes > 1 ? `var<workgroup> totals: array<f32, ${REDUCE_WORKGROUP}>;` : ""}

${workgroupIndex}
${dtype === "f16" ? halfFunctions : ""}
${combineFunction(operator, "combine", "f32")}
${wide ? combineFunction(operator, "combine_wide", "vec4<f32>") : ""}
${loadFunction(dtype, wide)}

/// The place of element index of the axes in rows [first, last) of the table. Row: extent, stride.
fn place_of(index: u32, first: u32, last: u32) -> u32 {
  if (first == last) { return 0u; }
  var place = 0u;
  var rest = index;
  for (var axis = last - 1u; axis > first; axis--) {
    let row = parameters.axes[axis];
    let next = rest / row.x;
    place += (rest - next * row.x) * row.y;
    rest = next;
  }
  return place + rest * parameters.axes[first].y;
}

@compute @workgroup_size(${REDUCE_WORKGROUP})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
  let segment = group / parameters.output_blocks;
  let slot = ${along === "reduced" ? "lane / LANES" : "lane % SLOTS"};
  let reducer = ${along === "reduced" ? "lane % LANES" : "lane / SLOTS"};
  let index = (group - segment * parameters.output_blocks) * SLOTS + slot;
  let start = segment * parameters.segment_length;
  let end = min(start + parameters.segment_length, parameters.length);

  var total = ${value}(parameters.identity);
  if (index < parameters.outputs && start < end) {
    let base = parameters.data_offset + place_of(index, 0u, parameters.kept_rank);
    ${single ? "let stride = parameters.axes[parameters.kept_rank].y;" : ""}
    // Several chains of additions, which are shorter and do not wait for each other.
${each((i) => `var part_${i} = ${value}(parameters.identity);`, "    ")}
    var next = start + reducer;
    for (; next + ${UNROLL - 1}u * LANES < end; next += ${UNROLL}u * LANES) {
      // All loads before their first use, so that they are under way together.
${each((i) => `let place_${i} = ${place(`next + ${i}u * LANES`)};`, "      ")}
${each((i) => `let value_${i} = load(place_${i});`, "      ")}
${each((i) => `part_${i} = ${combine(value)}(part_${i}, value_${i});`, "      ")}
    }
    for (; next < end; next += LANES) {
      part_0 = ${combine(value)}(part_0, load(${place("next")}));
    }
    total = ${join(
      combine(value),
      unrolled.map((i) => `part_${i}`),
    )};
  }

  var result = ${wide ? join("combine", ["total.x", "total.y", "total.z", "total.w"]) : "total"};
  ${lanes > 1 ? tree : ""}
  if (reducer == 0u && index < parameters.outputs && start < end) {
    if (parameters.divisor != 1.0) { result /= parameters.divisor; }
    output[parameters.output_offset + segment * parameters.outputs + index] = result;
  }
}
`,
  });
}

function storageType({ dtype, wide }: ReduceTile): ElementType {
  if (dtype === "f32") return wide ? "vec4f" : "f32";
  return wide ? "half8" : "half";
}

/** Leaves the result of each output with its first reducer. */
const tree = wgsl`
  let own = slot * LANES + reducer;
  totals[own] = result;
  for (var half = LANES / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (reducer < half) { totals[own] = combine(totals[own], totals[own + half]); }
  }
  result = totals[own];
`;

/** Pairs of neighbours first: f(f(a, b), f(c, d)). */
function join(name: string, values: readonly string[]): string {
  if (values.length === 1) return values[0]!;
  const middle = Math.ceil(values.length / 2);
  return `${name}(${join(name, values.slice(0, middle))}, ${join(name, values.slice(middle))})`;
}

const operators: Readonly<Record<ReduceOperator, string>> = {
  sum: "a + b",
  prod: "a * b",
  max: "max(a, b)",
  min: "min(a, b)",
};

function combine(type: string): string {
  return type === "f32" ? "combine" : "combine_wide";
}

function combineFunction(operator: ReduceOperator, name: string, type: string): string {
  return `fn ${name}(a: ${type}, b: ${type}) -> ${type} { return ${operators[operator]}; }`;
}

function loadFunction(dtype: DType, wide: boolean): string {
  if (dtype === "f32") return `fn load(place: u32) -> ${wide ? "vec4<f32>" : "f32"} { return data[place]; }`;
  if (!wide) return "fn load(place: u32) -> f32 { return half_at(data[place >> 1u], place); }";
  return wgsl`
fn load(place: u32) -> vec4<f32> {
  let words = data[place];
  return combine_wide(
    vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y)),
    vec4<f32>(unpack2x16float(words.z), unpack2x16float(words.w)));
}`;
}
