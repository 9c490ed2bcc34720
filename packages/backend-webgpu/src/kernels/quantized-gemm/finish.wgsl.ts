import type { Activation, FloatType } from "@backplane/core";
import { floatLayouts, input, output, type Storage, wgsl } from "../../program/index.js";
import { activated, activationText, epilogueName } from "../epilogue.wgsl.js";

/** What is done with sums, and how results leave. */
export interface Finish {
  readonly dtype: FloatType;
  /** f32 to C or to scratch, or two f16 in each word of C. */
  readonly target: "single" | "pairs";
  /** Where the numbers are to which beta times them is added: at the place of the results, or elsewhere in their own type. */
  readonly adds: "target" | "before" | undefined;
  readonly bias: boolean;
  readonly activation: Activation | undefined;
}

export function finishName(form: Finish): string {
  const { target, adds } = form;
  return `${target === "pairs" ? "_pairs" : ""}${adds === undefined ? "" : `_adds_${adds}`}${epilogueName(form)}`;
}

export function finishBindings({ dtype, target, adds, bias }: Finish): Record<string, Storage> {
  const { single } = floatLayouts[dtype];
  return {
    ...(adds === "before" ? { before: input(single) } : {}),
    ...(bias ? { bias: input(single) } : {}),
    c: output(target === "pairs" ? "half" : "f32"),
  };
}

export const finishParameters = {
  /** Elements from one row of the results to the next. */
  pitch: "u32",
  beta: "f32",
  /** As `pitch`, of what is added elsewhere. */
  before_pitch: "u32",
} as const;

/** For programs with the functions of `dtype`, and `total_of(place)`, a sum. */
export function finishText({ dtype, bias, activation }: Finish): string {
  return wgsl`
${activationText(activation, dtype)}
fn finished(place: u32, column: u32, before: f32) -> f32 {
  var value = total_of(place) + before;
  ${
    bias
      ? `let bias_at = parameters.bias_offset + column;
  value += ${floatLayouts[dtype].load("bias", "bias_at")};`
      : ""
  }
  return ${activated(activation, "value")};
}
`;
}

/** Statements that store the result of sum `i`, or two from an even column on, in `row` and `column`. */
export function stored({ dtype, target, adds }: Finish): string {
  const place = "      let place = parameters.c_offset + row * parameters.pitch + column;";
  if (target === "pairs") {
    const before = adds === undefined ? "vec2f()" : "parameters.beta * unpack2x16float(c[place >> 1u])";
    return `${place}
      if ((column & 1u) == 0u) {
        let before = ${before};
        c[place >> 1u] = pack_halves(finished(i, column, before.x), finished(i + 1u, column + 1u, before.y));
      }`;
  }
  if (adds === undefined) return `${place}\n      c[place] = finished(i, column, 0.0);`;
  const before = { target: "c[place]", before: floatLayouts[dtype].load("before", "before_place") };
  return `${place}
${adds === "before" ? "      let before_place = parameters.before_offset + row * parameters.before_pitch + column;\n" : ""}
      c[place] = finished(i, column, parameters.beta * ${before[adds]});`;
}
