import type { DType } from "@backplane/core";
import {
  type ElementType,
  input,
  linearBuiltins,
  lines,
  output,
  type ParameterType,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { conversion } from "./convert.wgsl.js";

/**
 * What is moved at once: a word, a vector of 16 bytes, or four neighbouring elements that are converted. No two units of an
 * output share a word.
 */
export type Unit = "word" | "vector" | readonly [from: DType, to: DType];

/** Rows of the table of axes. */
export const AXIS_ROWS = 8;

/** Units of each invocation, a workgroup apart: so many loads are under way at once. */
export const unitsPerInvocation = { word: 4, vector: 2, quad: 2 } as const;

/** How four neighbouring elements of a type are bound. */
export const quads: Readonly<
  Record<DType, { readonly storage: ElementType; readonly bits: readonly string[]; readonly packed: string }>
> = {
  ...{ f32: quadOf(4), i32: quadOf(4), u32: quadOf(4) },
  ...{ f16: quadOf(2), bf16: quadOf(2), u8: quadOf(1) },
};

/** `bits`: of each element of the variable `quad`. `packed`: from the results r0 to r3. */
function quadOf(bytes: 1 | 2 | 4): (typeof quads)[DType] {
  switch (bytes) {
    case 4:
      return {
        storage: "vec4u",
        bits: ["quad.x", "quad.y", "quad.z", "quad.w"],
        packed: "vec4u(r0, r1, r2, r3)",
      };
    case 2:
      return {
        storage: "half4",
        bits: ["quad.x & 0xffffu", "quad.x >> 16u", "quad.y & 0xffffu", "quad.y >> 16u"],
        packed: "vec2u(r0 | (r1 << 16u), r2 | (r3 << 16u))",
      };
    default:
      return {
        storage: "u32",
        bits: ["quad & 0xffu", "(quad >> 8u) & 0xffu", "(quad >> 16u) & 0xffu", "quad >> 24u"],
        packed: "r0 | (r1 << 8u) | (r2 << 16u) | (r3 << 24u)",
      };
  }
}

/**
 * Moves units from and to any places: the place of unit i is found by the table of axes, whose rows are an extent and the
 * strides of the input and the output, in their units. Strides may be negative: sums of u32 wrap around.
 */
export function unitsProgram(unit: Unit): Program<"source" | "output", "count" | "start" | "rank" | "axes"> {
  const { name, stored, moved, perInvocation } = unitText(unit);
  return program({
    name,
    bindings: stored,
    parameters: { count: "u32", start: "u32", rank: "u32", axes: { rows: AXIS_ROWS } },
    light: true,
    body: wgsl`
${workgroupIndex}
${moved}
${placeOf}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let first = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE * perInvocation}u + lane;
  let last = parameters.count - 1u;
  ${lines(perInvocation, (i) => `let at${i} = place_of(min(first + ${i * WORKGROUP_SIZE}u, last), parameters.rank);`)}
  ${loadsAndStores(perInvocation, (i) => `first + ${i * WORKGROUP_SIZE}u`)}
}
`,
  });
}

/** Moves units as `unitsProgram` does; see `linePart`. `count`: of lines. */
export function lineUnitsProgram(
  unit: Unit,
): Program<"source" | "output", "count" | "lane_shift" | "parts" | "start" | "rank" | "axes"> {
  const { name, stored, moved, perInvocation } = unitText(unit);
  return program({
    name: `${name}_in_lines`,
    bindings: stored,
    parameters: lineParameters,
    light: true,
    body: wgsl`
${workgroupIndex}
${moved}
${placeOf}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${linePart(perInvocation)}
  let last = units.x - 1u;
  ${lines(perInvocation, (i) => `let at${i} = at + min(first + (${i}u << parameters.lane_shift), last) * units.yz;`)}
  ${loadsAndStores(perInvocation, (i) => `first + (${i}u << parameters.lane_shift)`)}
}
`,
  });
}

export const lineParameters: Readonly<
  Record<"count" | "lane_shift" | "parts" | "start" | "rank" | "axes", ParameterType>
> = {
  ...{ count: "u32", lane_shift: "u32", parts: "u32" },
  ...{ start: "u32", rank: "u32", axes: { rows: AXIS_ROWS } },
};

/**
 * 2^lane_shift neighbouring invocations take one part of a line along the last axis. Each takes `perInvocation` units: `first`,
 * and others so many invocations apart. `at` is the place of the line, and `units` the row of the last axis.
 */
export function linePart(perInvocation: number): string {
  return wgsl`let invocation = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let part = invocation >> parameters.lane_shift;
  let line = part / parameters.parts;
  if (line >= parameters.count) { return; }
  let at = place_of(line, parameters.rank - 1u);
  let units = parameters.axes[parameters.rank - 1u];
  let own = invocation & ((1u << parameters.lane_shift) - 1u);
  let first = (((part - line * parameters.parts) * ${perInvocation}u) << parameters.lane_shift) + own;`;
}

/** Of the places at0, at1, ...; those after the last one are not written. */
function loadsAndStores(perInvocation: number, index: (i: number) => string): string {
  return wgsl`${lines(perInvocation, (i) => `let unit${i} = source[at${i}.x];`)}
  ${lines(perInvocation, (i) => `if (${index(i)} <= last) { output[at${i}.y] = moved(unit${i}); }`)}`;
}

/** Where the place of a number is in both operands, counted along the first axes of the table. */
export const placeOf: string = wgsl`
fn place_of(index: u32, axes: u32) -> vec2u {
  var at = vec2u(parameters.source_offset + parameters.start, parameters.output_offset);
  var rest = index;
  for (var axis = axes; axis > 1u; axis--) {
    let row = parameters.axes[axis - 1u];
    let next = rest / row.x;
    at += (rest - next * row.x) * row.yz;
    rest = next;
  }
  return at + rest * parameters.axes[0].yz;
}
`;

function unitText(unit: Unit) {
  const isPlain = typeof unit === "string";
  const word = unit === "word" ? "u32" : "vec4u";
  const [from, to] = isPlain
    ? ([word, word] as const)
    : ([quads[unit[0]].storage, quads[unit[1]].storage] as const);
  const result = isPlain
    ? "return quad;"
    : [
        ...quads[unit[0]].bits.map((bits, i) => `let r${i} = convert(${bits});`),
        `return ${quads[unit[1]].packed};`,
      ].join("\n  ");
  const stored = { source: input(from), output: output(to) };
  return {
    name: `copy_${isPlain ? `${unit}s` : `quads_${unit.join("_")}`}`,
    stored,
    moved: wgsl`
${isPlain ? "" : conversion(...unit)}
fn moved(quad: ${stored.source.wgsl}) -> ${stored.output.wgsl} {
  ${result}
}
`,
    perInvocation: unitsPerInvocation[isPlain ? unit : "quad"],
  };
}
