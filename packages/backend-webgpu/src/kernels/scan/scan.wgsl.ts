import type { ScanKind } from "@backplane/core";
import {
  type ComputedType,
  type ElementLayout,
  type ElementType,
  input,
  layouts,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import type { Along } from "../rows/index.js";
import { type Combine, eightsText, quadsText, singlesText } from "./loads.wgsl.js";

/*
 * No workgroup waits for another. Rows that are cut into segments take three steps: what the elements of each
 * segment combine to, a scan of that, and a scan of each segment that begins with what comes before it.
 *
 * Maxima and minima of floats are those of keys: whole numbers whose order is that of the elements, with NaN at the
 * end that wins. Implementations of WGSL may assume that there is no NaN, and their max may lose it.
 */

export type ScanVector = 1 | 4 | 8;
export type ScanLanes = 1 | 2 | 4 | 8 | 16 | 32 | 64 | 128 | 256;

/** `keys` are i32. */
export type Stored = ComputedType | "keys";

/** The properties of one generated kernel; everything else is a parameter. */
export interface ScanTile {
  readonly kind: ScanKind;
  readonly source: Stored;
  readonly sink: Stored;
  readonly along: Along;
  /** Elements of a load. 8: of f16, in rows. */
  readonly vector: ScanVector;
  /** Invocations that share a row, and loads that each has at once. Of columns each invocation has its own. */
  readonly lanes: ScanLanes;
  readonly rounds: 1 | 4;
  /** Results of elements, or what the elements of segments combine to. */
  readonly mode: "results" | "totals";
  /** Whether there is something before the first element of each segment. */
  readonly carries: boolean;
}

export type Parameter =
  | "rows"
  | "length"
  | "inner"
  | "segments"
  | "segment_length"
  | "row_blocks"
  | "identity"
  | "flags";

/** Bits of `flags`. */
export const flags = { exclusive: 1, reverse: 2 } as const;

const parameterTypes = {
  rows: "u32",
  length: "u32",
  inner: "u32",
  segments: "u32",
  segment_length: "u32",
  row_blocks: "u32",
  /** The bits of the result of no elements. */
  identity: "u32",
  flags: "u32",
} as const;

/** Lines that an invocation reads at once. */
const UNROLL = 8;

const combiners: Readonly<Record<ScanKind, Combine>> = {
  sum: (a, b) => `(${a} + ${b})`,
  prod: (a, b) => `(${a} * ${b})`,
  max: (a, b) => `max(${a}, ${b})`,
  min: (a, b) => `min(${a}, ${b})`,
};

const isExtreme = (kind: ScanKind): boolean => kind === "max" || kind === "min";

/** The type of values on the way. */
export function valueTypeOf(kind: ScanKind, stored: Stored): ElementLayout["value"] {
  if (stored === "keys") return "i32";
  const { value } = layouts[stored];
  return value === "f32" && isExtreme(kind) ? "i32" : value;
}

/** Rows, length and inner count loads along what these lie along. Elements count in the order of the scan. */
export function scanProgram(tile: ScanTile): Program<"data" | "carries" | "output", Parameter> {
  const { kind, source, sink, along, vector, lanes, rounds, mode, carries } = tile;
  const value = valueTypeOf(kind, source);
  const carryVector = along === "inner" && vector !== 8 ? vector : 1;
  const bindings = {
    data: input(storageOf(kind, source, vector)),
    ...(carries ? { carries: input(storageOf(kind, value === "i32" ? "keys" : value, carryVector)) } : {}),
    output: output(storageOf(kind, sink, mode === "totals" ? carryVector : vector)),
  } as Record<"data" | "carries" | "output", ReturnType<typeof input>>;
  const name = [
    "scan",
    kind,
    source,
    sink,
    along,
    vector,
    lanes,
    rounds,
    mode,
    carries ? "carried" : "whole",
  ];
  return program({
    name: name.join("_"),
    bindings,
    parameters: parameterTypes,
    body: wgsl`
${workgroupIndex}
${source === "f16" || sink === "f16" ? layouts.f16.functions : ""}
alias Value = ${value};
alias Values = ${vector === 1 ? value : `vec4<${value}>`};
alias Carry = ${carryVector === 1 ? value : `vec4<${value}>`};

fn key_of(bits: u32) -> i32 {
  let magnitude = bits & 0x7fffffffu;
  let key = select(i32(magnitude), ~i32(magnitude), bits > 0x7fffffffu);
  return select(key, ${kind === "min" ? "-0x7fffffff - 1" : "0x7fffffff"}, magnitude > 0x7f800000u);
}

fn bits_of(key: i32) -> u32 {
  return select(bitcast<u32>(key), ~bitcast<u32>(key) | 0x80000000u, key < 0);
}

fn is_exclusive() -> bool { return (parameters.flags & ${flags.exclusive}u) != 0u; }
fn is_reverse() -> bool { return (parameters.flags & ${flags.reverse}u) != 0u; }
fn identity() -> Value { return bitcast<Value>(parameters.identity); }

/// The place of a load along its row.
fn place_of(step: u32) -> u32 { return select(step, parameters.length - 1u - step, is_reverse()); }

${vector === 8 ? eights(kind, source, sink, mode) : quads(kind, source, sink, vector, mode)}
${carries ? `fn carry_of(index: u32) -> Carry { return carries[parameters.carries_offset + index]; }` : ""}

${along === "inner" ? columns(tile) : rows(tile, lanes, rounds)}
`,
  });
}

function storageOf(kind: ScanKind, stored: Stored, vector: ScanVector): ElementType {
  const type = stored === "keys" ? "i32" : stored === "f32" && isExtreme(kind) ? "u32" : stored;
  const { single, quad, block } = layouts[type];
  return { 1: single, 4: quad, 8: block }[vector];
}

/** Loads and stores of one element, or of four. */
function quads(kind: ScanKind, source: Stored, sink: Stored, vector: 1 | 4, mode: ScanTile["mode"]): string {
  const store = wgsl`
fn store(place: u32, value: Values) {
${storeText(kind, sink, vector)}
}`;
  return wgsl`
fn load(place: u32) -> Values {
${loadText(kind, source, vector)}
}
${mode === "results" ? store : ""}`;
}

/** Loads and stores of eight elements, in the order of the scan. */
function eights(kind: ScanKind, source: Stored, sink: Stored, mode: ScanTile["mode"]): string {
  const layout = layouts[source as ComputedType];
  const load = isExtreme(kind)
    ? wgsl`  let bits = bitcast<vec4u>(${layout.unpacked("quad")});
  return ${each(4, (c) => `key_of(bits${c})`, "i32")};`
    : `  return ${layout.unpacked("quad")};`;
  return wgsl`
struct Eight { first: Values, second: Values }

fn unpacked(quad: vec2u) -> Values {
${load}
}

fn load(place: u32) -> Eight {
  let block = data[parameters.data_offset + place];
  let first = unpacked(block.xy);
  let second = unpacked(block.zw);
  return Eight(select(first, second.wzyx, is_reverse()), select(second, first.wzyx, is_reverse()));
}
${mode === "results" ? storeOfEights(kind, sink as ComputedType) : ""}`;
}

function storeOfEights(kind: ScanKind, sink: ComputedType): string {
  const own = isExtreme(kind) ? `bitcast<vec4f>(${each(4, (c) => `bits_of(value${c})`, "u32")})` : "value";
  return wgsl`
fn packed(value: Values) -> vec2u {
  let own = ${own};
  return ${layouts[sink].packed("own")};
}

fn store(place: u32, value: Eight) {
  let first = select(value.first, value.second.wzyx, is_reverse());
  let second = select(value.second, value.first.wzyx, is_reverse());
  output[parameters.output_offset + place] = vec4u(packed(first), packed(second));
}`;
}

const each = (vector: 1 | 4, text: (component: string) => string, type: string): string =>
  vector === 1 ? text("") : `vec4<${type}>(${["x", "y", "z", "w"].map((c) => text(`.${c}`)).join(", ")})`;

function loadText(kind: ScanKind, stored: Stored, vector: 1 | 4): string {
  const at = "(parameters.data_offset + place)";
  if (stored === "keys") return `  return data[${at}];`;
  if (isExtreme(kind) && (stored === "f32" || stored === "f16")) {
    const bits =
      stored === "f32"
        ? `data[${at}]`
        : vector === 4
          ? `bitcast<vec4u>(quad_of(data[${at}]))`
          : `bitcast<u32>(${layouts.f16.load("data", at)})`;
    return `  let bits = ${bits};\n  return ${each(vector, (c) => `key_of(bits${c})`, "i32")};`;
  }
  if (vector === 1) return `  return ${layouts[stored].load("data", at)};`;
  return `  let quad = data[${at}];\n  return ${layouts[stored].unpacked("quad")};`;
}

function storeText(kind: ScanKind, stored: Stored, vector: 1 | 4): string {
  const at = "output[parameters.output_offset + place]";
  if (stored === "keys") return `  ${at} = value;`;
  const isFloat = stored === "f32" || stored === "f16";
  const bits = each(vector, (c) => `bits_of(value${c})`, "u32");
  if (isExtreme(kind) && stored === "f32") return `  ${at} = ${bits};`;
  const own = isExtreme(kind) && isFloat ? `bitcast<vec4f>(${bits})` : "value";
  return `  let own = ${own};\n  ${at} = ${vector === 4 ? layouts[stored].packed("own") : "own"};`;
}

/** An invocation does a segment of a column, or of neighbouring ones in a vector. */
function columns({ kind, mode, carries }: ScanTile): string {
  const join = combiners[kind];
  const store = (i: string, before: string, after: string) =>
    mode === "results"
      ? `store(first + place_of(${i}) * parameters.inner, select(${after}, ${before}, is_exclusive()));`
      : "";
  return wgsl`
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
  let segment = group / parameters.row_blocks;
  let row = (group - segment * parameters.row_blocks) * ${WORKGROUP_SIZE}u + lane;
  if (row >= parameters.rows || segment >= parameters.segments) { return; }
  let outer = row / parameters.inner;
  let column = row - outer * parameters.inner;
  let first = outer * parameters.length * parameters.inner + column;
  let own = (outer * parameters.segments + segment) * parameters.inner + column;
  let end = min((segment + 1u) * parameters.segment_length, parameters.length);
  var carry = ${carries ? "carry_of(own)" : "Values(identity())"};
  var step = segment * parameters.segment_length;
  for (; step + ${UNROLL - 1}u < end; step += ${UNROLL}u) {
    // All loads before their first use, so that they are under way together.
${lines(UNROLL, (i) => `    let x_${i} = load(first + place_of(step + ${i}u) * parameters.inner);`)}
    let so_far_0 = x_0;
${lines(UNROLL - 1, (i) => `    let so_far_${i + 1} = ${join(`so_far_${i}`, `x_${i + 1}`)};`)}
    let before_0 = carry;
${lines(UNROLL, (i) => `    let before_${i + 1} = ${join("carry", `so_far_${i}`)};\n    ${store(`step + ${i}u`, `before_${i}`, `before_${i + 1}`)}`)}
    carry = before_${UNROLL};
  }
  for (; step < end; step++) {
    let before = carry;
    carry = ${join("carry", "load(first + place_of(step) * parameters.inner)")};
    ${store("step", "before", "carry")}
  }
  ${mode === "totals" ? "output[parameters.output_offset + own] = carry;" : ""}
}`;
}

/** The elements of neighbours that are combined: a vector in which each component has those before it. */
function rows({ kind, vector, mode, carries }: ScanTile, lanes: ScanLanes, rounds: 1 | 4): string {
  const join = combiners[kind];
  const slots = WORKGROUP_SIZE / lanes;
  const parts = rounds === 1 ? "Value" : "vec4<Value>";
  const part = (name: string, round: number) => (rounds === 1 ? name : `${name}[${round}]`);
  const place = (round: number) => `step + ${round * lanes}u`;
  const steps = Math.log2(lanes);
  const texts = { 1: singlesText, 4: quadsText, 8: eightsText }[vector](join);
  const head = wgsl`
const LANES = ${lanes}u;
${lanes > 1 ? `var<workgroup> shares: array<${parts}, ${2 * WORKGROUP_SIZE}>;` : ""}

fn join_parts(a: ${parts}, b: ${parts}) -> ${parts} { return ${join("a", "b")}; }

${texts.functions}
`;
  const shared =
    lanes === 1
      ? wgsl`
    let sum = own;
    let before = ${parts}(identity());`
      : wgsl`
    workgroupBarrier();
    shares[lane] = own;
    var sum = own;
${lines(
  steps,
  (i) => wgsl`
    workgroupBarrier();
    if (member >= ${2 ** i}u) { sum = join_parts(shares[${(i % 2) * WORKGROUP_SIZE}u + lane - ${2 ** i}u], sum); }
    shares[${((i + 1) % 2) * WORKGROUP_SIZE}u + lane] = sum;`,
)}
    workgroupBarrier();
    var before = ${parts}(identity());
    if (member > 0u) { before = shares[${(steps % 2) * WORKGROUP_SIZE}u + lane - 1u]; }
    sum = shares[${(steps % 2) * WORKGROUP_SIZE}u + lane - member + LANES - 1u];`;
  const result = (round: number) => wgsl`
    let base_${round} = ${join("carry", part("before", round))};
    ${mode === "results" ? `if (${place(round)} < end) { store(first + place_of(${place(round)}), placed(x_${round}, base_${round})); }` : ""}
    carry = ${join("carry", part("sum", round))};`;
  return wgsl`
${head}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let member = lane % LANES;
  let group = workgroup_index(workgroup, workgroups);
  let segment = group / parameters.row_blocks;
  let row = (group - segment * parameters.row_blocks) * ${slots}u + lane / LANES;
  let isRow = row < parameters.rows && segment < parameters.segments;
  let limit = min((segment + 1u) * parameters.segment_length, parameters.length);
  let end = select(0u, limit, isRow);
  let first = row * parameters.length;
  var carry = identity();
  ${carries ? "if (isRow) { carry = carry_of(row * parameters.segments + segment); }" : ""}
  for (var tile = segment * parameters.segment_length; tile < limit; tile += ${lanes * rounds}u) {
    let step = tile + member;
${lines(rounds, (i) => `    var x_${i} = ${texts.nothing};\n    if (${place(i)} < end) { x_${i} = so_far(load(first + place_of(${place(i)}))); }`)}
    let own = ${parts}(${Array.from({ length: rounds }, (_, i) => texts.last(`x_${i}`)).join(", ")});
${shared}
${lines(rounds, result)}
  }
  ${mode === "totals" ? "if (isRow && member == 0u) { output[parameters.output_offset + row * parameters.segments + segment] = carry; }" : ""}
}`;
}
