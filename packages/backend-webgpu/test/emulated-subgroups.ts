import type { Program } from "#src/program.js";

/** Invocations of the subgroups that are emulated, and elements of a side of a matrix. */
const SUBGROUP = 32;
const SIDE = 16;
/** Elements of a matrix that each invocation keeps: eight neighbours in a row. */
const OWN = (SIDE * SIDE) / SUBGROUP;

/**
 * The same kernel for devices without matrix units, with subgroups that are 32 neighbouring invocations
 * on any device. Each invocation keeps eight elements of a matrix, and what others have goes through
 * workgroup memory. Takes f16 operands and f32 results of 16 x 16 in arrays of `vec4u`, or of such arrays, and
 * shuffles of f32, all in uniform control flow; throws where there is something else. It brings barriers of
 * its own, so a missing one does not show.
 */
export function withoutMatrixUnits<Binding extends string, Parameter extends string>(
  program: Program<Binding, Parameter>,
): Program<Binding, Parameter> {
  if (!program.source.includes("subgroup_matrix")) return program;
  const threads = Number(/@workgroup_size\((\d+)\)/.exec(program.source)![1]);
  const arrays = [...program.source.matchAll(/var<workgroup> (\w+): array<(array<)?vec4u, /g)];
  const access = arrays.map(([, name, nested]) => {
    const panel = nested === undefined ? name : `${name}[panel]`;
    return `
fn load_f16_${name}(panel: u32, offset: u32, pitch: u32, flip: bool) -> Matrix {
  var matrix: Matrix;
  for (var i = 0u; i < ${OWN}u; i++) {
    let at = emulated_place() * ${OWN}u + i;
    let row = select(at / ${SIDE}u, at % ${SIDE}u, flip);
    let column = select(at % ${SIDE}u, at / ${SIDE}u, flip);
    let half = (offset + row * pitch) * 8u + column;
    matrix[i] = unpack2x16float(${panel}[half / 8u][half % 8u / 2u] >> (half % 2u * 16u)).x;
  }
  return matrix;
}
fn load_f32_${name}(panel: u32, offset: u32, pitch: u32, flip: bool) -> Matrix {
  var matrix: Matrix;
  for (var i = 0u; i < ${OWN}u; i++) {
    let at = emulated_place() * ${OWN}u + i;
    let word = (offset + at / ${SIDE}u * pitch) * 4u + at % ${SIDE}u;
    matrix[i] = bitcast<f32>(${panel}[word / 4u][word % 4u]);
  }
  return matrix;
}
fn store_${name}(panel: u32, offset: u32, matrix: Matrix, pitch: u32) {
  for (var i = 0u; i < ${OWN / 4}u; i++) {
    let at = emulated_place() * ${OWN}u + 4u * i;
    ${panel}[offset + at / ${SIDE}u * pitch + at % ${SIDE}u / 4u] =
      bitcast<vec4u>(vec4f(matrix[4u * i], matrix[4u * i + 1u], matrix[4u * i + 2u], matrix[4u * i + 3u]));
  }
}`;
  });
  const functions = `
alias Matrix = array<f32, ${OWN}>;
var<private> emulated_lane: u32;
var<workgroup> emulated_left: array<f32, ${threads * OWN}>;
var<workgroup> emulated_right: array<f32, ${threads * OWN}>;
fn emulated_place() -> u32 { return emulated_lane % ${SUBGROUP}u; }
fn emulated_first() -> u32 { return emulated_lane - emulated_place(); }
${access.join("\n")}
fn emulated_product(left: Matrix, right: Matrix, sum: Matrix) -> Matrix {
  workgroupBarrier();
  for (var i = 0u; i < ${OWN}u; i++) {
    emulated_left[emulated_lane * ${OWN}u + i] = left[i];
    emulated_right[emulated_lane * ${OWN}u + i] = right[i];
  }
  workgroupBarrier();
  var result = sum;
  let first = emulated_first() * ${OWN}u;
  for (var i = 0u; i < ${OWN}u; i++) {
    let at = emulated_place() * ${OWN}u + i;
    for (var depth = 0u; depth < ${SIDE}u; depth++) {
      result[i] += emulated_left[first + at / ${SIDE}u * ${SIDE}u + depth] * emulated_right[first + depth * ${SIDE}u + at % ${SIDE}u];
    }
  }
  return result;
}
fn emulated_flipped(matrix: Matrix) -> Matrix {
  workgroupBarrier();
  for (var i = 0u; i < ${OWN}u; i++) { emulated_left[emulated_lane * ${OWN}u + i] = matrix[i]; }
  workgroupBarrier();
  var result: Matrix;
  for (var i = 0u; i < ${OWN}u; i++) {
    let at = emulated_place() * ${OWN}u + i;
    result[i] = emulated_left[emulated_first() * ${OWN}u + at % ${SIDE}u * ${SIDE}u + at / ${SIDE}u];
  }
  return result;
}
fn emulated_shuffle(value: f32, mask: u32) -> f32 {
  workgroupBarrier();
  emulated_left[emulated_lane] = value;
  workgroupBarrier();
  return emulated_left[emulated_lane ^ mask];
}
fn emulated_any(value: bool) -> bool {
  workgroupBarrier();
  emulated_left[emulated_lane] = f32(value);
  workgroupBarrier();
  var any = false;
  for (var i = 0u; i < ${SUBGROUP}u; i++) { any = any || emulated_left[emulated_first() + i] != 0.0; }
  return any;
}
`;
  const load =
    /subgroupMatrixLoad<subgroup_matrix_\w+<(f\d+), 16, 16>, (\w+)>\(&(\w+)(?:\[([^\]]+)\])?, (\w+), (\w+)\)/g;
  const store = /subgroupMatrixStore<(row|col)_major>\(&(\w+)\[([^\]]+)\], (\w+), (\w+), (\w+)\)/g;
  const builtins =
    /,\s*@builtin\(subgroup_id\) (\w+): u32,\s*@builtin\(subgroup_invocation_id\) (\w+): u32,?\s*\) \{/;
  const places = `) {
  emulated_lane = lane;
  let $1 = lane / ${SUBGROUP}u;
  let $2 = lane % ${SUBGROUP}u;`;
  const source = program.source
    .replaceAll(/^(enable|diagnostic)\b.*\n/gm, "")
    .replace(builtins, places)
    .replaceAll(load, (_, type, order, name, panel = "0u", offset, pitch) => {
      return `load_${type}_${name}(${panel}, ${offset}, ${pitch}, ${order === "col_major"})`;
    })
    .replaceAll(store, (_, order, name, panel, offset, matrix, pitch) => {
      const rows = order === "col" ? `emulated_flipped(${matrix})` : matrix;
      return `store_${name}(${panel}, ${offset}, ${rows}, ${pitch})`;
    })
    .replaceAll("subgroupMatrixMultiplyAccumulate", "emulated_product")
    .replaceAll(`subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>`, "Matrix")
    .replaceAll("subgroupShuffleXor", "emulated_shuffle")
    .replaceAll("subgroupAny", "emulated_any");
  const unknown = /.*(subgroup_matrix|subgroup[A-Z]).*/.exec(source);
  if (unknown !== null) throw new Error(`${program.name}: not understood: ${unknown[0]}`);
  return { ...program, name: `${program.name}_emulated`, source: `${source}\n${functions}` };
}

/**
 * A kernel whose only use of subgroups is `exchanged_1`, `_2`, `_4` and `of_lane`, for devices with any subgroups:
 * what invocations exchange goes through workgroup memory. The same restrictions hold.
 */
export function withoutShuffles<Binding extends string, Parameter extends string>(
  program: Program<Binding, Parameter>,
): Program<Binding, Parameter> {
  if (!program.source.includes("subgroupShuffle")) return program;
  const threads = Number(/@workgroup_size\((\d+)\)/.exec(program.source)![1]);
  const zeros = (components: string) => ", 0.0".repeat(4 - Number(components));
  const source = program.source
    .replaceAll(/^enable subgroups;\n/gm, "")
    .replaceAll(
      /(fn exchanged_(\d)\(value: \w+, mask: u32\) -> \w+) \{ return subgroupShuffleXor\(value, mask\); \}/g,
      (_, head, components) => `${head} {
  workgroupBarrier();
  emulated[emulated_lane] = vec4f(value${zeros(components)});
  workgroupBarrier();
  return emulated[emulated_lane ^ mask].${"xyzw".slice(0, Number(components))};
}`,
    )
    .replaceAll(/^\s*@builtin\(subgroup_\w+\) \w+: u32,\n?/gm, "")
    .replace(
      "{ return subgroupShuffle(value, place); }",
      `{
  workgroupBarrier();
  emulated[emulated_lane].x = value;
  workgroupBarrier();
  return emulated[place].x;
}`,
    )
    .replace("subgroup * subgroupSize + invocation", "lane")
    .replace("invocation - keyLane", "lane - keyLane")
    .replace(/(@builtin\(local_invocation_index\) lane: u32,?\s*\) \{)/, "$1\n  emulated_lane = lane;");
  const unknown = /.*subgroup[A-Z].*/.exec(source);
  if (unknown !== null) throw new Error(`${program.name}: not understood: ${unknown[0]}`);
  const functions = `
var<private> emulated_lane: u32;
var<workgroup> emulated: array<vec4f, ${threads}>;
`;
  return { ...program, name: `${program.name}_emulated`, source: `${source}\n${functions}` };
}
