import { general } from "#src/device/families.js";
import type { DeviceFeatures } from "#src/device/features.js";
import type { Program } from "#src/program/program.js";

/** What decisions are based on where a device has the matrix units that `withoutMatrixUnits` stands in for. */
export function withMatrixUnits(features: DeviceFeatures): DeviceFeatures {
  const limits = {
    ...features.limits,
    maxComputeInvocationsPerWorkgroup: 256,
    maxComputeWorkgroupStorageSize: 49_152,
  };
  const subgroups = { shaderF16: true, subgroups: true, subgroupMinSize: 32, subgroupMaxSize: 32 };
  return { ...features, ...subgroups, limits, subgroupMatrices: ["16x16x16"], family: general };
}

/** Of a matrix of sums each of 32 invocations keeps two rows of four columns. */
const ROW = "(place / 4u * 2u)";
const COLUMN = "(place % 4u * 4u)";

/** Rows of a left matrix, or columns of a right one, that an invocation needs for its sums. */
const parts = { left: { count: 2, first: ROW }, right: { count: 4, first: COLUMN } } as const;

/**
 * The same kernel in plain WGSL, for devices without matrix units: 32 neighbours in a workgroup are a subgroup,
 * and each reads the rows and columns of the operands that its own sums are made of. Takes f16 operands and f32
 * sums of 16 x 16 in workgroup memory of `vec4u`; throws where there is something that it does not know. What
 * invocations exchange (shuffles, matrices stored by columns) goes through workgroup memory, in uniform control
 * flow and with barriers of its own: a missing one does not show there.
 */
export function withoutMatrixUnits<Binding extends string, Parameter extends string>(
  program: Program<Binding, Parameter>,
): Program<Binding, Parameter> {
  if (!program.source.includes("subgroup_matrix")) return program;
  const source = program.source
    .replace(/^(enable|diagnostic)\b.*\n/gm, "")
    .replace(/,\s*@builtin\(subgroup_\w+\) \w+: u32/g, "")
    .replace(
      /(fn main\([^{]*\{)/,
      "$1\n  let subgroup = lane / 32u;\n  let place = lane % 32u;\n  emulated_lane = lane;",
    )
    .replace(/subgroup_matrix_(left|right)<f16, 16, 16>(?=;)/g, "$1_part")
    .replace(/subgroup_matrix_result<f32, 16, 16>(?=;|\(\))/g, "sums_part")
    .replace(
      /(let )?(\w+) = subgroupMatrixLoad<subgroup_matrix_(left|right)<f16, 16, 16>, (row|col)_major>\(&(.*), ([\w +*]+), (\d+u)\);/g,
      (
        _,
        isNew: string | undefined,
        name: string,
        side: "left" | "right",
        order: string,
        ...from: string[]
      ) => `${isNew ? `var ${name}: ${side}_part; ` : ""}${loadText(name, side, order === "row", from)}`,
    )
    .replace(
      /(var )?(\w+) = subgroupMatrixMultiplyAccumulate\((\w+), (\w+), (\w+)\);/g,
      (_, isNew: string | undefined, name: string, left: string, right: string, sums: string) =>
        `${sums === name ? "" : `${isNew ?? ""}${name} = ${sums}; `}for (var q = 0u; q < 16u; q++) { ` +
        `${name}[0] += ${left}[q].x * ${right}[q]; ${name}[1] += ${left}[q].y * ${right}[q]; }`,
    )
    .replace(
      /subgroupMatrixStore<(row|col)_major>\(&(.*), ([\w +*]+), (\w+), (\d+u)\);/g,
      (_, order: string, array: string, at: string, name: string, pitch: string) =>
        `{ let sums = ${order === "row" ? name : `emulated_flipped(${name})`}; for (var q = 0u; q < 2u; q++) { ` +
        `${array}[${at} + (${ROW} + q) * ${pitch} + ${COLUMN} / 4u] = bitcast<vec4u>(sums[q]); } }`,
    )
    .replace(/(\w+) = subgroupMatrixScalarMultiply\(\1, (\w+)\);/g, "$1[0] *= $2; $1[1] *= $2;")
    .replace("c: array<f16>;", "c: array<atomic<u32>>;")
    .replace(/let (low|high) = bitcast<vec2<f16>>\((.*)\);/g, "let $1 = vec2u($2 & 0xffffu, $2 >> 16u);")
    .replace(/\bc\[(.*)\] = ((low|high)\.[xy]);/g, "emulated_put($1, $2);")
    .replace(
      "unpack2x16float(bitcast<u32>(vec2<f16>(c[place], 0.0h))).x",
      "emulated_half(atomicLoad(&c[place >> 1u]), place)",
    )
    .replace(/if \(subgroupAny\((.*)\)\) \{/g, "if (emulated_anywhere($1)) {")
    .replaceAll("subgroupShuffleXor", "emulated_shuffle")
    .replaceAll("subgroupMax", "emulated_max")
    .replaceAll("subgroupAny", "emulated_any");
  const unknown = /.*(subgroup_matrix|subgroup[A-Z]).*/.exec(source.replace(/^\s*\/\/.*$/gm, ""));
  if (unknown !== null) throw new Error(`${program.name}: not understood: ${unknown[0]}`);
  const threads = Number(/@workgroup_size\((\d+)\)/.exec(program.source)![1]);
  const text = `${source}\n${emulation(threads)}${source.includes("emulated_put") ? halfStore : ""}`;
  return { ...program, name: `${program.name}_emulated`, source: text };
}

/** Reads rows of a left matrix, or columns of a right one, for every step of k. */
function loadText(
  name: string,
  side: "left" | "right",
  rowMajor: boolean,
  [array, at, pitch]: readonly string[],
): string {
  const { count, first } = parts[side];
  const element = (along: string, depth: string) => {
    const [major, minor] = (side === "left") === rowMajor ? [along, depth] : [depth, along];
    return `emulated_half(${array}[${at} + (${major}) * ${pitch} + (${minor}) / 8u][(${minor}) % 8u / 2u], ${minor})`;
  };
  const values = Array.from({ length: count }, (_, i) => element(`${first} + ${i}u`, "q"));
  return `for (var q = 0u; q < 16u; q++) { ${name}[q] = vec${count}f(${values.join(", ")}); }`;
}

/** A half of C that is written without its neighbour. */
const halfStore = `
fn emulated_put(at: u32, bits: u32) {
  let shift = at % 2u * 16u;
  atomicAnd(&c[at / 2u], ~(0xffffu << shift));
  atomicOr(&c[at / 2u], bits << shift);
}
`;

const emulation = (threads: number): string => `
alias left_part = array<vec2f, 16>;
alias right_part = array<vec4f, 16>;
alias sums_part = array<vec4f, 2>;
var<private> emulated_lane: u32;
var<workgroup> emulated: array<array<f32, 256>, ${threads / 32}>;

var<workgroup> emulated_count: atomic<u32>;
var<workgroup> emulated_total: u32;

fn emulated_half(word: u32, at: u32) -> f32 { return unpack2x16float(word >> (at % 2u * 16u)).x; }

/// What the invocation has of the transposed matrix.
fn emulated_flipped(sums: sums_part) -> sums_part {
  let subgroup = emulated_lane / 32u;
  let place = emulated_lane % 32u;
  workgroupBarrier();
  for (var i = 0u; i < 4u; i++) {
    for (var q = 0u; q < 2u; q++) { emulated[subgroup][(${COLUMN} + i) * 16u + ${ROW} + q] = sums[q][i]; }
  }
  workgroupBarrier();
  var flipped: sums_part;
  for (var i = 0u; i < 4u; i++) {
    for (var q = 0u; q < 2u; q++) { flipped[q][i] = emulated[subgroup][(${ROW} + q) * 16u + ${COLUMN} + i]; }
  }
  return flipped;
}
fn emulated_share(value: f32) {
  workgroupBarrier();
  emulated[emulated_lane / 32u][emulated_lane % 32u] = value;
  workgroupBarrier();
}
fn emulated_shuffle(value: f32, mask: u32) -> f32 {
  emulated_share(value);
  return emulated[emulated_lane / 32u][(emulated_lane ^ mask) % 32u];
}
fn emulated_max(value: f32) -> f32 {
  emulated_share(value);
  var most = emulated[emulated_lane / 32u][0];
  for (var i = 1u; i < 32u; i++) { most = max(most, emulated[emulated_lane / 32u][i]); }
  return most;
}
/// In all subgroups, as barriers follow.
fn emulated_anywhere(value: bool) -> bool {
  workgroupBarrier();
  atomicStore(&emulated_count, 0u);
  workgroupBarrier();
  if (value) { atomicAdd(&emulated_count, 1u); }
  workgroupBarrier();
  if (emulated_lane == 0u) { emulated_total = atomicLoad(&emulated_count); }
  return workgroupUniformLoad(&emulated_total) > 0u;
}
fn emulated_any(value: bool) -> bool {
  emulated_share(f32(value));
  var any = 0.0;
  for (var i = 0u; i < 32u; i++) { any += emulated[emulated_lane / 32u][i]; }
  return any > 0.0;
}
`;
