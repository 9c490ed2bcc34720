import {
  input,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";

/** Vectors of 16 bytes that one invocation writes, a workgroup apart; their loads are under way together. */
export const vectorsPerInvocation = { 1: 1, 2: 1, 4: 2 } as const;

/**
 * output[o, j] = source[o, index - first] of the index at (o, j), as `gatherProgram` does it, for rows of one element:
 * take along the last axis. `per_line` workgroups write each line of `count` vectors, so that no place is divided.
 * `length` counts elements of the source's lines, `line_stride` vectors of indices from one line to the next.
 */
export function alongProgram(
  bytes: 1 | 2 | 4,
): Program<
  "source" | "indices" | "output",
  "lines" | "per_line" | "length" | "count" | "line_stride" | "first" | "keeps"
> {
  const vectors = vectorsPerInvocation[bytes];
  const perWord = 4 / bytes;
  const perVector = 16 / bytes;
  const mask = bytes === 2 ? "0xffffu" : "0xffu";
  const components = ["x", "y", "z", "w"] as const;
  const elements = (i: number, text: (name: string, e: number) => string) =>
    lines(perVector, (e) => text(`${i}_${e}`, e));
  const value = (name: string) =>
    bytes === 4
      ? `if (index${name} < parameters.length) { value${name} = source[line_start + index${name}]; }`
      : wgsl`if (index${name} < parameters.length) {
    let at = line_start + index${name};
    value${name} = (source[at / ${perWord}u] >> (${8 * bytes}u * (at % ${perWord}u))) & ${mask};
  }`;
  /** Elements of one word of the result that are found, and all of them put together. */
  const word = (i: number, component: number) =>
    Array.from({ length: perWord }, (_, e) => {
      const name = `value${i}_${component * perWord + e}`;
      return bytes === 4 ? name : `(${name} << ${8 * bytes * e}u)`;
    }).join(" | ");
  const found = (i: number, component: number) =>
    Array.from({ length: perWord }, (_, e) => {
      const all = bytes === 4 ? "0xffffffffu" : `${mask.slice(0, -1)}u << ${8 * bytes * e}u`;
      return `select(0u, ${all}, index${i}_${component * perWord + e} < parameters.length)`;
    }).join(" | ");
  return program({
    name: `gather_along_${bytes}`,
    bindings: {
      source: input(bytes === 4 ? "u32" : bytes === 2 ? "half" : "byte"),
      indices: input("vec4i"),
      output: output("vec4u"),
    },
    parameters: {
      ...{ lines: "u32", per_line: "u32", length: "u32", count: "u32", line_stride: "u32" },
      ...{ first: "u32", keeps: "u32" },
    },
    light: true,
    body: wgsl`
${workgroupIndex}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
  let line = group / parameters.per_line;
  if (line >= parameters.lines) { return; }
  let start = (group - line * parameters.per_line) * ${WORKGROUP_SIZE * vectors}u + lane;
  let index_start = parameters.indices_offset + line * parameters.line_stride;
  let line_start = parameters.source_offset + line * parameters.length;
  ${lines(
    vectors,
    (i) => wgsl`let vector${i} = min(start + ${i * WORKGROUP_SIZE}u, parameters.count - 1u);
  ${lines(
    perVector / 4,
    (q) => `let quad${i}_${q} = indices[index_start + vector${i} * ${perVector / 4}u + ${q}u];`,
  )}`,
  )}
  // A difference of a negative index might wrap round into the range.
  ${lines(vectors, (i) =>
    elements(i, (name, e) => {
      const index = `quad${i}_${Math.floor(e / 4)}.${components[e % 4]}`;
      return `let index${name} = select(u32(${index}) - parameters.first, 0xffffffffu, ${index} < 0);`;
    }),
  )}
  ${lines(vectors, (i) => elements(i, (name) => `var value${name} = 0u;\n  ${value(name)}`))}
  ${lines(
    vectors,
    (i) => wgsl`if (start + ${i * WORKGROUP_SIZE}u < parameters.count) {
    let to = parameters.output_offset + line * parameters.count + vector${i};
    var result = vec4u(${components.map((_, c) => word(i, c)).join(", ")});
    if (parameters.keeps != 0u) {
      let found = vec4u(${components.map((_, c) => found(i, c)).join(", ")});
      result |= output[to] & ~found;
    }
    output[to] = result;
  }`,
  )}
}
`,
  });
}
