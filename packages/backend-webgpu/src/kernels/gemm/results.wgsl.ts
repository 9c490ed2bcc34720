import type { FloatType } from "@backplane/core";
import { floatLayouts, halfQuad, input, output, packQuad, type Storage, wgsl } from "../../program/index.js";
import { activated, activationText, type Epilogue, hasTail } from "../epilogue.wgsl.js";

/** The place of a kernel's results, and the operations on them; sums of parts have no epilogue. */
export interface ResultForm extends Epilogue {
  /**
   * `matrix`: alpha * sum + beta * C and the epilogue, straight into C, which is f32 or `vectorC`, unless the program
   * enables f16 and stores by `store_rows`. `scratch`: f32 results elsewhere, because f16 is rounded and packed
   * afterwards, or because the sums are parts of the whole.
   */
  readonly target: "matrix" | "scratch";
  /** With `scratch`: C is bound and beta * C is added. Without it C is never touched. */
  readonly readsC: boolean;
  /** Element type of C. */
  readonly dtype: FloatType;
  /**
   * Every run of four along the rows of the results is whole and aligned to four elements. Only for kernels
   * that write nothing but quads. A C that is only read, to be added to scratch, may have any layout.
   */
  readonly vectorC?: boolean;
  /**
   * With `vectorC` or halves at any place: beta is 0, and the text does not read C. Default: that is found out when it
   * runs.
   */
  readonly overwritesC?: boolean;
  /**
   * With `vectorC`, for f32: results are the sums as they are, without alpha, C or an epilogue. Compilers for GPUs
   * then keep sums in the registers that they are stored from; see docs/decisions/0014-packed-operands-on-the-gpu.md.
   */
  readonly sumsOnly?: boolean;
}

/**
 * Returns the bindings for one form of result and the functions that write it: `store(matrix, row, column,
 * sum)` for one element, `store_quad` for as many of four neighbours as exist.
 */
export function resultText(form: ResultForm): { bindings: Record<string, Storage>; functions: string } {
  if (form.vectorC) return vectorResultText(form);
  if (storesHalves(form)) return halvesResultText(form);
  const { dtype, readsC, bias, activation } = form;
  const inPlace = form.target === "matrix";
  const readable = inPlace || readsC;
  const target = inPlace ? "c" : "results";
  const bindings = {
    ...(inPlace
      ? { c: output("f32") }
      : { results: output("f32"), ...(readsC ? { c: input(floatLayouts[dtype].single) } : {}) }),
    ...biasBinding(form),
  };
  const readC = wgsl`
fn c_place(matrix: u32, row: u32) -> u32 {
  return parameters.c_offset + matrix * parameters.c_step + row * parameters.c_pitch;
}
fn c_at(place: u32) -> f32 { return ${floatLayouts[dtype].load("c", "place")}; }
`;
  const place = inPlace
    ? "c_place(matrix, row) + column"
    : "parameters.results_offset + (matrix * parameters.m + row) * parameters.n + column";
  // beta = 0 must not read C: it may hold anything.
  const add = (old: string) =>
    readable ? `\n  if (parameters.beta != 0.0) { value += parameters.beta * ${old}; }` : "";
  return {
    bindings,
    functions: wgsl`${activationText(activation, dtype)}${biasText(form)}${readable ? readC : ""}
fn store(matrix: u32, row: u32, column: u32, sum: f32) {
  var value = parameters.alpha * sum;${add("c_at(c_place(matrix, row) + column)")}${
    bias ? "\n  value += bias_at(column);" : ""
  }
  ${target}[${place}] = ${activated(activation, "value")};
}

fn store_quad(matrix: u32, row: u32, column: u32, sums: vec4f) {
  if (row >= parameters.m || column >= parameters.n) { return; }
  let last = parameters.n - 1u - column;
  var value = parameters.alpha * sums;${add("c_quad(c_place(matrix, row) + column, last)")}${epilogueOfQuad(form)}
  let at = ${place};
  ${target}[at] = value.x;
  if (last >= 1u) { ${target}[at + 1u] = value.y; }
  if (last >= 2u) { ${target}[at + 2u] = value.z; }
  if (last >= 3u) { ${target}[at + 3u] = value.w; }
}
${readable ? quadOfC : ""}`,
  };
}

/** Whether results are halves at any place, for programs that enable f16. */
export function storesHalves({ dtype, target, vectorC }: ResultForm): boolean {
  return dtype === "f16" && target === "matrix" && !vectorC;
}

/**
 * For `storesHalves`: only `store_rows`, for one column of four rows. Elements of `array<f16>` are written without their
 * neighbours, which may be another's; they are computed as bits, as everywhere.
 */
function halvesResultText(form: ResultForm): ReturnType<typeof resultText> {
  const { dtype, activation, bias, overwritesC = false } = form;
  const { functions, name } = packing(form);
  const places = [0, 1, 2, 3].map((row) => `at + min(${row}u, last) * parameters.c_pitch`);
  const add = `
  if (parameters.beta != 0.0) {
    value += parameters.beta * vec4f(${places.map((place) => `c_at(${place})`).join(", ")});
  }`;
  const readC = `
fn c_at(place: u32) -> f32 { return unpack2x16float(bitcast<u32>(vec2<f16>(c[place], 0.0h))).x; }
`;
  return {
    bindings: { c: output("f16"), ...biasBinding(form) },
    functions: wgsl`${activationText(activation, dtype)}${biasText(form)}${functions}${overwritesC ? "" : readC}
fn store_rows(matrix: u32, row: u32, column: u32, sums: vec4f) {
  if (row >= parameters.m || column >= parameters.n) { return; }
  let last = parameters.m - 1u - row;
  let at = parameters.c_offset + matrix * parameters.c_step + row * parameters.c_pitch + column;
  var value = parameters.alpha * sums;${overwritesC ? "" : add}${bias ? "\n  value += bias_at(column);" : ""}
  let halves = ${name}(${activated(activation, "value", true)});
  let low = bitcast<vec2<f16>>(halves.x);
  let high = bitcast<vec2<f16>>(halves.y);
  c[at] = low.x;
  if (last >= 1u) { c[at + parameters.c_pitch] = low.y; }
  if (last >= 2u) { c[at + 2u * parameters.c_pitch] = high.x; }
  if (last >= 3u) { c[at + 3u * parameters.c_pitch] = high.y; }
}
`,
  };
}

function biasBinding({ bias, dtype }: ResultForm): Record<string, Storage> {
  return bias ? { bias: input(floatLayouts[dtype].single) } : {}; // n elements
}

/** Returns `bias_at` and `bias_quad`, which repeats the last one past the end; nothing without a bias. */
function biasText({ bias, dtype }: ResultForm): string {
  if (!bias) return "";
  return wgsl`
fn bias_at(column: u32) -> f32 {
  let at = parameters.bias_offset + column;
  return ${floatLayouts[dtype].load("bias", "at")};
}

fn bias_quad(column: u32, last: u32) -> vec4f {
  return vec4f(
    bias_at(column), bias_at(column + min(1u, last)), bias_at(column + min(2u, last)), bias_at(column + min(3u, last)));
}
`;
}

/** Statements that finish the quad `value`. */
function epilogueOfQuad({ bias, activation }: ResultForm): string {
  const add = bias ? "\n  value += bias_quad(column, last);" : "";
  return activation === undefined ? add : `${add}\n  value = ${activated(activation, "value", true)};`;
}

/**
 * How quads of results become halves. An activation with a tail leaves subnormal numbers here and there, and all
 * neighbours wait for them: 4096^3 with gelu had 303 TFLOP/s by pack_quad, and 305 to 324 without its choice (NVIDIA H200).
 */
function packing({ activation }: ResultForm): { functions: string; name: string } {
  return activation !== undefined && hasTail(activation)
    ? { functions: halfQuad, name: "half_quad" }
    : { functions: packQuad, name: "pack_quad" };
}

/** Quads of results in memory. */
interface StoredQuad {
  /** WGSL expression: c[at] as a vec4f. */
  readonly read: string;
  /** Functions that `written` calls. */
  readonly functions: (form: ResultForm) => string;
  /** WGSL expression: a vec4f as it is stored. */
  readonly written: (value: string, form: ResultForm) => string;
}

const storedQuads: Readonly<Record<FloatType, StoredQuad>> = {
  f32: { read: "c[at]", functions: () => "", written: (value) => value },
  f16: {
    read: "vec4f(unpack2x16float(c[at].x), unpack2x16float(c[at].y))",
    functions: (form) => packing(form).functions,
    written: (value, form) => `${packing(form).name}(${value})`,
  },
};

/**
 * The same for `vectorC`: only `store_quad`, which writes all four at once, and with a bias `store_biased`,
 * which receives its quad.
 */
function vectorResultText(form: ResultForm): ReturnType<typeof resultText> {
  const { dtype, target, readsC, overwritesC = false } = form;
  if (target === "scratch" && readsC) throw new RangeError("scratch with C is written one by one");
  const stored = target === "scratch" ? "f32" : dtype;
  const quad = storedQuads[stored];
  const [place, written] =
    target === "scratch"
      ? ["results_offset * 4u + (matrix * parameters.m + row) * parameters.n", "results"]
      : ["c_offset * 4u + matrix * parameters.c_step + row * parameters.c_pitch", "c"];
  const add = wgsl`
  if (parameters.beta != 0.0) { value += parameters.beta * ${quad.read}; }`;
  const finished = activated(form.activation, "value", true);
  const result = wgsl`
  var value = parameters.alpha * sums;${target === "matrix" && !overwritesC ? add : ""}${form.bias ? "\n  value += added;" : ""}
  ${written}[at] = ${quad.written(finished, form)};`;
  return {
    bindings: { [written]: output(floatLayouts[stored].quad), ...biasBinding(form) },
    functions: wgsl`${activationText(form.activation, dtype)}${biasText(form)}${quad.functions(form)}${
      form.bias
        ? wgsl`
fn store_quad(matrix: u32, row: u32, column: u32, sums: vec4f) {
  if (row < parameters.m && column < parameters.n) {
    store_biased(matrix, row, column, sums, bias_quad(column, 3u));
  }
}
`
        : ""
    }
fn ${form.bias ? "store_biased" : "store_quad"}(matrix: u32, row: u32, column: u32, sums: vec4f${form.bias ? ", added: vec4f" : ""}) {
  if (row >= parameters.m || column >= parameters.n) { return; }
  let at = (parameters.${place} + column) / 4u;${form.sumsOnly ? `\n  ${written}[at] = sums;` : result}
}
`,
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
