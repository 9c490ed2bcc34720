import {
  input,
  linearBuiltins,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { loadFunction, readLayouts, storageType } from "./loads.wgsl.js";
import { type ShareText, shareText, unrollOf } from "./shares.wgsl.js";
import { type LaneCount, REDUCE_WORKGROUP, type ReduceTile } from "./tile.js";

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
  const { dtype, operator, lanes, along, wide, single, axes } = tile;
  const { value, functions } = readLayouts[dtype];
  const isVector = wide && along === "kept";
  const share = shareText(tile);
  const place = single
    ? (index: string) => `base + (${index}) * stride`
    : (index: string) => `base + place_of(${index}, parameters.kept_rank, parameters.rank)`;
  const count = unrollOf(tile);
  const unrolled = Array.from({ length: count }, (_, i) => i);
  const each = (text: (i: number) => string) => unrolled.map((i) => `      ${text(i)}`).join("\n");
  return program({
    name: ["reduce", operator, dtype, along, lanes, wide ? "wide" : "narrow", single ? "single" : axes].join(
      "_",
    ),
    ...(lanes === "subgroup" ? subgroupDirectives : {}),
    bindings: { data: input(storageType(tile)), output: output(value) },
    parameters: {
      ...{ outputs: "u32", slots: "u32", output_blocks: "u32", length: "u32", segment_length: "u32" },
      ...{ kept_rank: "u32", rank: "u32", identity: value, divisor: "f32", axes: { rows: axes } },
    },
    body: wgsl`
${workgroupIndex}
${functions}
${share.functions}
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
fn share_of(index: u32, start: u32, end: u32, reducer: u32, lanes: u32) -> ${share.type} {
${share.begin}
  if (index < parameters.outputs && start < end) {
    let base = parameters.data_offset + place_of(index, 0u, parameters.kept_rank);
    ${single ? "let stride = parameters.axes[parameters.kept_rank].y;" : ""}
    var next = start + reducer;
    for (; next + ${count - 1}u * lanes < end; next += ${count}u * lanes) {
      // All loads before their first use, so that they are under way together.
${each((i) => `let place_${i} = ${place(`next + ${i}u * lanes`)};`)}
${each((i) => `let value_${i} = load(place_${i});`)}
${share.take(unrolled.map((i) => `value_${i}`))}
    }
    for (; next < end; next += lanes) {
      let value = load(${place("next")});
${share.take(["value"])}
    }
  }
  ${share.end}
}

/// For the first reducer of an output.
fn write(index: u32, segment: u32, total: ${share.type}) {
  if (index >= parameters.outputs) { return; }
${share.finish}
  let at = segment * parameters.outputs + index;
${
  isVector
    ? [0, 1, 2, 3]
        .map((i) => `  output[parameters.output_offset + 4u * at + ${i}u] = result[${i}];`)
        .join("\n")
    : "  output[parameters.output_offset + at] = result;"
}
}

${lanes === "subgroup" ? subgroupMain(share) : workgroupMain(lanes, along, share)}
`,
  });
}

/** The part of a workgroup: one segment of `slots` outputs from `first` on. */
const part = wgsl`
  let group = workgroup_index(workgroup, workgroups);
  let segment = group / parameters.output_blocks;
  let first = (group - segment * parameters.output_blocks) * parameters.slots;
  let start = segment * parameters.segment_length;
  let end = min(start + parameters.segment_length, parameters.length);`;

/** Shares of an output meet in workgroup memory, as a tree. */
function workgroupMain(lanes: LaneCount, along: ReduceTile["along"], { type }: ShareText): string {
  return wgsl`
const LANES = ${lanes}u;
const SLOTS = ${REDUCE_WORKGROUP / lanes}u;

${lanes > 1 ? `var<workgroup> totals: array<${type}, ${REDUCE_WORKGROUP}>;` : ""}

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
    if (reducer < half) { totals[own] = combine(totals[own], totals[own + half]); }
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
function subgroupMain({ ofSubgroup }: ShareText): string {
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
    let result = ${ofSubgroup("share_of(first + slot, start, end, reducer, lanes)")};
    if (reducer == 0u && start < end) { write(first + slot, segment, result); }
  }
}`;
}
