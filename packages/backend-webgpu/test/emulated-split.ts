import type { Program } from "#src/program.js";

/** Of a matrix of sums each of 32 invocations keeps two rows of four columns. */
const ROW = "(place / 4u * 2u)";
const COLUMN = "(place % 4u * 4u)";

/** Rows of a left matrix, or columns of a right one, that an invocation needs for its sums. */
const parts = { left: { count: 2, first: ROW }, right: { count: 4, first: COLUMN } } as const;

/**
 * The product of split operands in plain WGSL, for devices without matrix units: 32 neighbours in a
 * workgroup are a subgroup. Throws where there is something that it does not know.
 */
export function emulated<Binding extends string, Parameter extends string>(
  program: Program<Binding, Parameter>,
): Program<Binding, Parameter> {
  const source = program.source
    .replace(/^(enable|diagnostic).*\n/gm, "")
    .replace(/^ *@builtin\(subgroup.*\n/gm, "")
    .replace(/(fn main\([^{]*\{)/, "$1\n  let subgroup = lane / 32u;\n  let place = lane % 32u;")
    .replace(/subgroup_matrix_result<f32, 16, 16>(?=;)/g, "array<vec4f, 2>")
    .replace(
      /let (\w+) = subgroupMatrixLoad<subgroup_matrix_(left|right)<f16, 16, 16>, \w+>\(&(.*), (\d+u), (\d+u)\);/g,
      (_, name: string, side: "left" | "right", panel: string, at: string, pitch: string) => {
        const { count, first } = parts[side];
        const elements = Array.from(
          { length: count },
          (_, i) => `part_at(${panel}[${at} + (${first} + ${i}u) * ${pitch} + p / 8u], p)`,
        );
        return `var ${name}: array<vec${count}f, 16>;
      for (var p = 0u; p < 16u; p++) { ${name}[p] = vec${count}f(${elements.join(", ")}); }`;
      },
    )
    .replace(
      /(\w+) = subgroupMatrixMultiplyAccumulate\((\w+), (\w+), \w+\);/g,
      "for (var p = 0u; p < 16u; p++) { $1[0] += $2[p].x * $3[p]; $1[1] += $2[p].y * $3[p]; }",
    )
    .replace(
      /subgroupMatrixStore<row_major>\(&(.*), (\w+ \+ \w+), (\w+), (\d+u)\);/g,
      `for (var i = 0u; i < 2u; i++) { $1[$2 + (${ROW} + i) * $4 + ${COLUMN} / 4u] = bitcast<vec4u>($3[i]); }`,
    )
    .replace(
      "@compute",
      `fn part_at(unit: vec4u, p: u32) -> f32 { return unpack2x16float(unit[p % 8u / 2u])[p % 2u]; }\n\n@compute`,
    );
  const unknown = /.*subgroup_?matrix.*/i.exec(source.replace(/^\/\/.*$/gm, ""));
  if (unknown !== null) throw new Error(`${program.name}: not understood: ${unknown[0]}`);
  return { ...program, source };
}
