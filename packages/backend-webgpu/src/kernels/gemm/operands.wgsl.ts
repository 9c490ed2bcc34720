import type { DType } from "@backplane/core";
import { input, output, type Storage } from "../../program.js";
import { wgsl } from "../../wgsl.js";

/** Where a kernel leaves its results. */
export interface ResultForm {
  /**
   * `matrix`: alpha * sum + beta * C, straight into C, which is f32. `scratch`: f32 results elsewhere,
   * because f16 is rounded and packed afterwards, or because the sums are only parts of the whole.
   */
  readonly target: "matrix" | "scratch";
  /** With `scratch`: C is bound and beta * C is added. Without it C is never touched. */
  readonly readsC: boolean;
  /** Element type of C. */
  readonly dtype: DType;
}

/**
 * Bindings for one form of result and the functions that write it: `store(matrix, row, column, sum)` for
 * one element, `store_quad` for as many of four neighbours as exist.
 */
export function resultText(form: ResultForm): { bindings: Record<string, Storage>; functions: string } {
  const { dtype, readsC } = form;
  const inPlace = form.target === "matrix";
  const readable = inPlace || readsC;
  const target = inPlace ? "c" : "results";
  const bindings = inPlace
    ? { c: output("f32") }
    : { results: output("f32"), ...(readsC ? { c: input(dtype === "f16" ? "half" : "f32") } : {}) };
  const readC = wgsl`
fn c_place(matrix: u32, row: u32) -> u32 {
  return parameters.c_offset + matrix * parameters.c_step + row * parameters.c_pitch;
}
fn c_at(place: u32) -> f32 { return ${dtype === "f16" ? "half_at(c[place >> 1u], place)" : "c[place]"}; }
`;
  const place = inPlace
    ? "c_place(matrix, row) + column"
    : "parameters.results_offset + (matrix * parameters.m + row) * parameters.n + column";
  // beta = 0 must not read C: it may hold anything.
  const add = (old: string) =>
    readable ? `\n  if (parameters.beta != 0.0) { value += parameters.beta * ${old}; }` : "";
  return {
    bindings,
    functions: wgsl`${readable ? readC : ""}
fn store(matrix: u32, row: u32, column: u32, sum: f32) {
  var value = parameters.alpha * sum;${add("c_at(c_place(matrix, row) + column)")}
  ${target}[${place}] = value;
}

fn store_quad(matrix: u32, row: u32, column: u32, sums: vec4f) {
  if (row >= parameters.m || column >= parameters.n) { return; }
  let last = parameters.n - 1u - column;
  var value = parameters.alpha * sums;${add("c_quad(c_place(matrix, row) + column, last)")}
  let at = ${place};
  ${target}[at] = value.x;
  if (last >= 1u) { ${target}[at + 1u] = value.y; }
  if (last >= 2u) { ${target}[at + 2u] = value.z; }
  if (last >= 3u) { ${target}[at + 3u] = value.w; }
}
${readable ? quadOfC : ""}`,
  };
}

/** Elements past the end of the row repeat its last one. */
const quadOfC = wgsl`
fn c_quad(place: u32, last: u32) -> vec4f {
  return vec4f(c_at(place), c_at(place + min(1u, last)), c_at(place + min(2u, last)), c_at(place + min(3u, last)));
}
`;

export const resultParameters = {
  m: "u32",
  n: "u32",
  alpha: "f32",
  beta: "f32",
  c_pitch: "u32",
  c_step: "u32",
} as const;

/** Binding and load functions of an operand, which count elements from the start of its buffer. */
export function operandText(
  name: string,
  dtype: DType,
  vector: boolean,
): { storage: Storage; functions: string } {
  if (dtype === "f32")
    return vector
      ? {
          storage: input("vec4f"),
          functions: wgsl`
const ${name}_unit = 4u; // elements in one unit of ${name}_offset
fn ${name}_load4(index: u32) -> vec4f { return ${name}[index >> 2u]; }
`,
        }
      : {
          storage: input("f32"),
          functions: wgsl`
const ${name}_unit = 1u; // elements in one unit of ${name}_offset
fn ${name}_load1(index: u32) -> f32 { return ${name}[index]; }
`,
        };
  return vector
    ? {
        storage: input("half4"),
        functions: wgsl`
const ${name}_unit = 4u; // elements in one unit of ${name}_offset
fn ${name}_load4(index: u32) -> vec4f {
  let words = ${name}[index >> 2u];
  return vec4f(unpack2x16float(words.x), unpack2x16float(words.y));
}
`,
      }
    : {
        storage: input("half"),
        functions: wgsl`
const ${name}_unit = 1u; // elements in one unit of ${name}_offset
fn ${name}_load1(index: u32) -> f32 { return half_at(${name}[index >> 1u], index); }
`,
      };
}
