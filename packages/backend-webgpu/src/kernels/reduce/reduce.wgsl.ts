import { isTruthReduction, type ReducedType, type ReduceKind, type TruthReduceKind } from "@backplane/core";
import {
  type ElementLayout,
  type ElementType,
  input,
  layouts,
  linearBuiltins,
  output,
  type Program,
  program,
  type Storage,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";

/** Invocations of a workgroup. */
export const REDUCE_WORKGROUP: 256 = 256;

/** Loads in flight per invocation. */
const UNROLL = 4;

/**
 * How two values become one. A mean is a sum that is divided at its end, and logSumExp one of exponentials. Of truth values, which are bytes or u32,
 * any joins what is true and all what is false; results are 0 or 1.
 */
export type ReduceOperator = Exclude<ReduceKind, "mean" | "logSumExp">;

/** Few numbers, because each makes another program to compile. */
export type LaneCount = 1 | 4 | 16 | 64 | 256;
export const laneCounts: readonly LaneCount[] = [1, 4, 16, 64, REDUCE_WORKGROUP];

/** The properties of one generated kernel; everything else is a parameter. */
export interface ReduceTile {
  readonly dtype: ReducedType;
  readonly operator: ReduceOperator;
  /** Invocations that share one output: a number, or a subgroup of any size. */
  readonly lanes: LaneCount | "subgroup";
  /** Neighbouring invocations read neighbours along the reduced axes, or along the kept ones. */
  readonly along: "reduced" | "kept";
  /** Whether a load takes `elementsPerLoad` elements along the innermost axis of the kind that `along` names. */
  readonly wide: boolean;
  /** Whether there is only one reduced axis, so that places need no division. */
  readonly single: boolean;
  /** Rows of the table of axes: the kept ones, then the reduced ones. */
  readonly axes: number;
  /** What is done with the shift of each output, for logSumExp. */
  readonly shifts: Shifts;
}

/** `exponentials`: e^(x - shift) is summed in place of x. `logarithms`: results are shift + ln(sum). */
export interface Shifts {
  readonly exponentials: boolean;
  readonly logarithms: boolean;
}

type LoadForm = Pick<ReduceTile, "dtype" | "operator" | "wide" | "along" | "shifts">;

/** How elements lie in storage, and how they are read one by one. */
type ReadLayout = Pick<ElementLayout, "value" | "single" | "quad" | "block" | "functions" | "load"> & {
  readonly perBlock: 4 | 8 | 16;
};

export const readLayouts: Readonly<Record<ReducedType, ReadLayout>> = {
  ...layouts,
  u8: {
    ...{ value: "u32", single: "byte", quad: "u32", block: "vec4u", perBlock: 16, functions: "" },
    load: (binding, index) => `((${binding}[(${index}) >> 2u] >> (8u * ((${index}) & 3u))) & 0xffu)`,
  },
};

/** Elements that one wide load takes: 16 bytes along a reduced axis, but four outputs along a kept one. */
export function elementsPerLoad(dtype: ReducedType, along: ReduceTile["along"]): number {
  return along === "kept" ? 4 : readLayouts[dtype].perBlock;
}

type ReduceParameter =
  | "outputs"
  | "slots"
  | "output_blocks"
  | "length"
  | "segment_length"
  | "kept_rank"
  | "rank"
  | LastParameter;
type LastParameter = "identity" | "divisor" | "axes";

/**
 * output[segment * outputs + o] = operator over the reduced elements of output o that lie in the segment. A
 * workgroup computes one segment of `slots` neighbouring outputs: `REDUCE_WORKGROUP / lanes`, or any number if
 * subgroups take them in turn.
 *
 * Lengths, extents and strides count loads; for wide loads along the kept axes, outputs count vectors of outputs.
 */
export function reduceProgram(tile: ReduceTile): Program<string, ReduceParameter> {
  const { dtype, operator, lanes, along, wide, single, axes, shifts } = tile;
  const { value: scalar, functions } = readLayouts[dtype];
  const value = wide ? vectorOf(scalar) : scalar;
  const combine = wide ? "combine_wide" : "combine";
  const isVector = wide && along === "kept";
  const result = isVector ? value : scalar;
  const isShifted = shifts.exponentials || shifts.logarithms;
  const place = single
    ? (index: string) => `base + (${index}) * stride`
    : (index: string) => `base + place_of(${index}, parameters.kept_rank, parameters.rank)`;
  const unrolled = Array.from({ length: UNROLL }, (_, i) => i);
  const each = (text: (i: number) => string, indent: string) =>
    unrolled.map((i) => indent + text(i)).join("\n");
  return program({
    name: [
      ...["reduce", operator, dtype, along, lanes, wide ? "wide" : "narrow", single ? "single" : axes],
      ...[...(shifts.exponentials ? ["exponentials"] : []), ...(shifts.logarithms ? ["logarithms"] : [])],
    ].join("_"),
    ...(lanes === "subgroup" ? subgroupDirectives : {}),
    bindings: bindingsOf(tile, scalar, isShifted),
    parameters: {
      ...{ outputs: "u32", slots: "u32", output_blocks: "u32", length: "u32", segment_length: "u32" },
      ...{ kept_rank: "u32", rank: "u32", identity: scalar, divisor: "f32", axes: { rows: axes } },
    },
    body: wgsl`
${workgroupIndex}
${functions}
${combineFunction(operator, "combine", scalar)}
${wide ? combineFunction(operator, "combine_wide", value) : ""}
${isShifted ? shiftText(result, isVector) : ""}
${loadFunction(tile)}

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

/// The share of one of \`lanes\` reducers in an output.
fn share_of(index: u32, start: u32, end: u32, reducer: u32, lanes: u32) -> ${result} {
  var total = ${value}(parameters.identity);
  if (index < parameters.outputs && start < end) {
    let base = parameters.data_offset + place_of(index, 0u, parameters.kept_rank);
    ${shifts.exponentials ? "shift = shift_of(index);" : ""}
    ${single ? "let stride = parameters.axes[parameters.kept_rank].y;" : ""}
    // Several chains of additions, which are shorter and do not wait for each other.
${each((i) => `var part_${i} = ${value}(parameters.identity);`, "    ")}
    var next = start + reducer;
    for (; next + ${UNROLL - 1}u * lanes < end; next += ${UNROLL}u * lanes) {
      // All loads before their first use, so that they are under way together.
${each((i) => `let place_${i} = ${place(`next + ${i}u * lanes`)};`, "      ")}
${each((i) => `let value_${i} = load(place_${i});`, "      ")}
${each((i) => `part_${i} = ${combine}(part_${i}, value_${i});`, "      ")}
    }
    for (; next < end; next += lanes) {
      part_0 = ${combine}(part_0, load(${place("next")}));
    }
    total = ${join(
      combine,
      unrolled.map((i) => `part_${i}`),
    )};
  }
  return ${wide && !isVector ? join("combine", ["total.x", "total.y", "total.z", "total.w"]) : "total"};
}

/// For the first reducer of an output.
fn write(index: u32, segment: u32, total: ${result}) {
  if (index >= parameters.outputs) { return; }
  var result = total;
${isTruthReduction(operator) ? truths[operator].finish(result) : divisions[scalar]}
${shifts.logarithms ? "  result = ended(shift_of(index), result);" : ""}
  let at = segment * parameters.outputs + index;
${
  isVector
    ? [0, 1, 2, 3]
        .map((i) => `  output[parameters.output_offset + 4u * at + ${i}u] = result[${i}];`)
        .join("\n")
    : "  output[parameters.output_offset + at] = result;"
}
}

${lanes === "subgroup" ? subgroupMain(operator) : workgroupMain(lanes, along, result, isVector ? combine : "combine")}
`,
  });
}

function bindingsOf(
  tile: ReduceTile,
  result: ElementLayout["value"],
  isShifted: boolean,
): Readonly<Record<string, Storage>> {
  const own = { data: input(storageType(tile)), output: output(result) };
  return isShifted ? { ...own, shifts: input("f32") } : own;
}

/**
 * The shift of an output, or of four: its largest element, which is bound as `shifts`, or 0 if that is not finite. By its
 * bits, for an expression of numbers may be taken for always true.
 */
function shiftText(type: string, isVector: boolean): string {
  const at = "parameters.shifts_offset + ";
  const largest = isVector
    ? `vec4<f32>(${[0, 1, 2, 3].map((i) => `shifts[${at}4u * index + ${i}u]`).join(", ")})`
    : `shifts[${at}index]`;
  const words = isVector ? "vec4<u32>" : "u32";
  return wgsl`
/// Of the output that an invocation is at.
var<private> shift: ${type};

fn shift_of(index: u32) -> ${type} {
  let largest = ${largest};
  let exponents = bitcast<${words}>(largest) & ${words}(0x7f800000u);
  return select(largest, ${type}(0.0), exponents == ${words}(0x7f800000u));
}

/// By bits, too: of nothing but -Infinity, the sum is 0 and the result -Infinity.
fn ended(shift: ${type}, sum: ${type}) -> ${type} {
  let result = bitcast<${words}>(shift + log(sum));
  return bitcast<${type}>(select(result, ${words}(0xff800000u), bitcast<${words}>(sum) == ${words}(0u)));
}`;
}

/** The part of a workgroup: one segment of `slots` outputs from `first` on. */
const part = wgsl`
  let group = workgroup_index(workgroup, workgroups);
  let segment = group / parameters.output_blocks;
  let first = (group - segment * parameters.output_blocks) * parameters.slots;
  let start = segment * parameters.segment_length;
  let end = min(start + parameters.segment_length, parameters.length);`;

/** Shares of an output meet in workgroup memory, as a tree. */
function workgroupMain(
  lanes: LaneCount,
  along: ReduceTile["along"],
  result: string,
  combine: string,
): string {
  return wgsl`
const LANES = ${lanes}u;
const SLOTS = ${REDUCE_WORKGROUP / lanes}u;

${lanes > 1 ? `var<workgroup> totals: array<${result}, ${REDUCE_WORKGROUP}>;` : ""}

@compute @workgroup_size(${REDUCE_WORKGROUP})
fn main(${linearBuiltins}) {${part}
  let slot = ${along === "reduced" ? "lane / LANES" : "lane % SLOTS"};
  let reducer = ${along === "reduced" ? "lane % LANES" : "lane / SLOTS"};
  var result = share_of(first + slot, start, end, reducer, LANES);
${
  lanes > 1
    ? wgsl`
  let own = slot * LANES + reducer;
  totals[own] = result;
  for (var half = LANES / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (reducer < half) { totals[own] = ${combine}(totals[own], totals[own + half]); }
  }
  result = totals[own];`
    : ""
}
  if (reducer == 0u && start < end) { write(first + slot, segment, result); }
}`;
}

const subgroupDirectives = {
  enable: ["subgroups"],
  // Control flow by the number of a subgroup is the same for all of it, which cannot be proved.
  directives: ["diagnostic(off, subgroup_uniformity);"],
} as const;

/**
 * Outputs go to subgroups in turn, whose shares are combined without a tree. It assumes nothing about
 * subgroups: sizes differ between devices and pipelines, and WebGPU promises neither that they are full nor
 * which invocations make one. A subgroup counts its invocations and assigns each a place. Workgroup memory
 * tells how many subgroups there are and which of them this is, in the order of their first invocations.
 */
function subgroupMain(operator: ReduceOperator): string {
  return wgsl`
const WORDS = ${REDUCE_WORKGROUP / 32}u;

var<workgroup> firsts: array<atomic<u32>, WORDS>; // a bit for each invocation that is its subgroup's first

@compute @workgroup_size(${REDUCE_WORKGROUP})
fn main(${linearBuiltins}) {${part}
  let lanes = subgroupAdd(1u);
  let reducer = subgroupExclusiveAdd(1u);
  let own = subgroupMin(lane);
  if (lane == own) { atomicOr(&firsts[lane / 32u], 1u << (lane % 32u)); }
  workgroupBarrier();
  var subgroup = 0u;
  var subgroups = 0u;
  for (var word = 0u; word < WORDS; word++) {
    let bits = atomicLoad(&firsts[word]);
    subgroups += countOneBits(bits);
    subgroup += countOneBits(extractBits(bits, 0u, clamp(own, 32u * word, 32u * word + 32u) - 32u * word));
  }
  for (var slot = subgroup; slot < parameters.slots; slot += subgroups) {
    let result = ${subgroupFunctions[operator]}(share_of(first + slot, start, end, reducer, lanes));
    if (reducer == 0u && start < end) { write(first + slot, segment, result); }
  }
}`;
}

function storageType({ dtype, wide, along }: Omit<LoadForm, "operator" | "shifts">): ElementType {
  const { single, quad, block } = readLayouts[dtype];
  if (!wide) return single;
  return along === "kept" ? quad : block;
}

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
  any: "a | b",
  all: "a | b",
};

const subgroupFunctions: Readonly<Record<ReduceOperator, string>> = {
  sum: "subgroupAdd",
  prod: "subgroupMul",
  max: "subgroupMax",
  min: "subgroupMin",
  any: "subgroupOr",
  all: "subgroupOr",
};

/** Of sums that are to be means. Integers have none. */
const divisions: Readonly<Record<ElementLayout["value"], string>> = {
  f32: "  if (parameters.divisor != 1.0) { result /= parameters.divisor; }",
  i32: "",
  u32: "",
};

function combineFunction(operator: ReduceOperator, name: string, type: string): string {
  return `fn ${name}(a: ${type}, b: ${type}) -> ${type} { return ${operators[operator]}; }`;
}

/** WGSL expressions: what is joined of one truth value, or of four bytes at once, and the result of what was joined. */
interface TruthText {
  value(type: string, truth: string): string;
  bytes(words: string): string;
  finish(type: string): string;
}

const truths: Readonly<Record<TruthReduceKind, TruthText>> = {
  any: {
    value: (_type, truth) => truth,
    bytes: (words) => words,
    finish: (type) => `  result = select(${type}(0u), ${type}(1u), total != ${type}(0u));`,
  },
  all: {
    value: (type, truth) => `select(${type}(0u), ${type}(1u), ${truth} == ${type}(0u))`,
    // The lowest byte that is 0 is the first to borrow: its highest bit comes out set, and no other one below it.
    bytes: (words) => `(${words} - vec4<u32>(0x01010101u)) & ~${words} & vec4<u32>(0x80808080u)`,
    finish: (type) => `  result = select(${type}(0u), ${type}(1u), total == ${type}(0u));`,
  },
};

function truthLoad(
  operator: TruthReduceKind,
  { dtype, wide, along }: Omit<LoadForm, "operator" | "shifts">,
): string {
  const { value, bytes } = truths[operator];
  const type = wide ? "vec4<u32>" : "u32";
  const head = `fn load(place: u32) -> ${type}`;
  if (!wide) return `${head} { return ${value(type, readLayouts[dtype].load("data", "place"))}; }`;
  if (dtype !== "u8") return `${head} { return ${value(type, "data[place]")}; }`;
  if (along === "reduced") return `${head} { let words = data[place]; return ${bytes("words")}; }`;
  const unpacked = "((vec4<u32>(data[place]) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu))";
  return `${head} { return ${value(type, unpacked)}; }`;
}

function loadFunction({ dtype, operator, wide, along, shifts }: LoadForm): string {
  if (isTruthReduction(operator)) return truthLoad(operator, { dtype, wide, along });
  if (dtype === "u8") throw new Error(`there is no ${operator} of u8`);
  const taken = shifts.exponentials ? (x: string) => `exp(${x} - shift)` : (x: string) => x;
  if (wide) return wideLoads[dtype][along](taken);
  const { value, load } = layouts[dtype];
  return `fn load(place: u32) -> ${value} { return ${taken(load("data", "place"))}; }`;
}

const vectorOf = (value: ElementLayout["value"]): string => `vec4<${value}>`;

/** The text of a load, given what is taken of the elements. */
type WideLoad = (taken: (x: string) => string) => string;
type WideLoads = Readonly<Record<ReduceTile["along"], WideLoad>>;

function quadLoads(value: ElementLayout["value"]): WideLoads {
  const load: WideLoad = (taken) =>
    `fn load(place: u32) -> ${vectorOf(value)} { return ${taken("data[place]")}; }`;
  return { kept: load, reduced: load };
}

const quadOf = (pair: string): string =>
  `vec4<f32>(unpack2x16float(words.${pair[0]}), unpack2x16float(words.${pair[1]}))`;

const halvesLoad = (result: string): string => wgsl`
fn load(place: u32) -> vec4<f32> {
  let words = data[place];
  return ${result};
}`;

const wideLoads: Readonly<Record<Exclude<ReducedType, "u8">, WideLoads>> = {
  f32: quadLoads("f32"),
  i32: quadLoads("i32"),
  u32: quadLoads("u32"),
  f16: {
    kept: (taken) => halvesLoad(taken(quadOf("xy"))),
    reduced: (taken) => halvesLoad(`combine_wide(${taken(quadOf("xy"))}, ${taken(quadOf("zw"))})`),
  },
};
