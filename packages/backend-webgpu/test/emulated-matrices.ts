import type { DeviceFeatures } from "#src/context.js";
import { general } from "#src/families.js";
import type { Program } from "#src/program.js";

/** What decisions are based on where a device has the matrix units that `emulated` stands in for. */
export function withMatrixUnits(features: DeviceFeatures): DeviceFeatures {
  const limits = {
    ...features.limits,
    maxComputeInvocationsPerWorkgroup: 256,
    maxComputeWorkgroupStorageSize: 49_152,
  };
  const subgroups = { shaderF16: true, subgroups: true, subgroupMinSize: 32, subgroupMaxSize: 32 };
  return { ...features, ...subgroups, limits, subgroupMatrices: ["16x16x16"], family: general };
}

/** Of a matrix of sums each invocation of 32 keeps two rows of four. */
const ROW = "(place / 4u * 2u)";
const COLUMN = "(place % 4u * 4u)";

/**
 * The same kernel in plain WGSL, for devices without matrix units: 32 neighbours are a subgroup, and each
 * invocation reads those rows and columns of the operands that its own sums are made of.
 */
export function emulated<Binding extends string, Parameter extends string>(
  program: Program<Binding, Parameter>,
): Program<Binding, Parameter> {
  if (!program.source.includes("subgroup_matrix")) return program;
  const source = program.source
    .replace(/^(enable|diagnostic).*\n/gm, "")
    .replace(/^ *@builtin\(subgroup.*\n/gm, "")
    .replace(/(fn main\([^{]*\{)/, "$1\n  let subgroup = lane / 32u;\n  let place = lane % 32u;")
    .replace(/subgroup_matrix_(left|right|result)<f\d+, 16, 16>(?=;)/g, "$1_part")
    .replace(
      /(let )?(\w+) = subgroupMatrixLoad<subgroup_matrix_(left|right)<f16, 16, 16>, (row|col)_major>\(&(.*), (\d+u), (\d+u)\);/g,
      (_, isNew: string | undefined, name: string, side: string, order: string, ...from: string[]) =>
        `${isNew ? `var ${name}: ${side}_part; ` : ""}${loadText(name, side, order === "row", from)}`,
    )
    .replace(
      /(\w+) = subgroupMatrixMultiplyAccumulate\((\w+), (\w+), \w+\);/g,
      "for (var q = 0u; q < 16u; q++) { $1[0] += $2[q].x * $3[q]; $1[1] += $2[q].y * $3[q]; }",
    )
    .replace(
      /subgroupMatrixStore<row_major>\(&(.*), (\w+(?: \+ \w+)?), (\w+), (\d+u)\);/g,
      `for (var q = 0u; q < 2u; q++) { $1[$2 + (${ROW} + q) * $4 + ${COLUMN} / 4u] = bitcast<vec4u>($3[q]); }`,
    )
    .replace(
      "@compute",
      "alias left_part = array<vec2f, 16>;\nalias right_part = array<vec4f, 16>;\nalias result_part = array<vec4f, 2>;\n@compute",
    );
  if (/subgroup_?matrix/i.test(source))
    throw new Error(`not understood: ${/.*subgroup_?matrix.*/i.exec(source)}`);
  return { ...program, source };
}

/** Reads rows of a left matrix, or columns of a right one, for every step of k. */
function loadText(
  name: string,
  side: string,
  rowMajor: boolean,
  [array, at, pitch]: readonly string[],
): string {
  const element = (along: string, depth: string) => {
    const [major, minor] = (side === "left") === rowMajor ? [along, depth] : [depth, along];
    return `half_at(${array}[${at} + (${major}) * ${pitch} + (${minor}) / 8u][(${minor}) % 8u / 2u], ${minor})`;
  };
  const count = side === "left" ? 2 : 4;
  const first = side === "left" ? ROW : COLUMN;
  const values = Array.from({ length: count }, (_, i) => element(`${first} + ${i}u`, "q"));
  return `for (var q = 0u; q < 16u; q++) { ${name}[q] = vec${count}f(${values.join(", ")}); }`;
}
