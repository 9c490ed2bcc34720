import type { FloatType } from "@backplane/core";
import { floatLayouts, input, type Storage, wgsl } from "../../program/index.js";

/** How four neighbouring elements get from memory to registers, and from there into a product. */
export interface QuadAccess {
  /** The WGSL function that reads them. */
  readonly load: string;
  /** The type of its values: halves stay packed, as unpacking would have to wait for them. */
  readonly type: "vec4f" | "vec2u";
  /** WGSL expression: the same as a vec4f. */
  readonly unpacked: (value: string) => string;
}

const quadAccesses: Readonly<Record<FloatType, (name: string) => QuadAccess>> = {
  f32: (name) => ({ load: `${name}_load4`, type: "vec4f", unpacked: (value) => value }),
  f16: (name) => ({ load: `${name}_packed4`, type: "vec2u", unpacked: (value) => `quad_of(${value})` }),
};

/** For an operand of `operandText` that is read four elements at a time. */
export function quadAccess(name: string, dtype: FloatType): QuadAccess {
  return quadAccesses[dtype](name);
}

/** Load functions for four neighbouring elements. */
const quadLoads: Readonly<Record<FloatType, (name: string) => string>> = {
  f32: (name) => `fn ${name}_load4(index: u32) -> vec4f { return ${name}[index >> 2u]; }`,
  f16: (name) => wgsl`fn ${name}_load4(index: u32) -> vec4f { return quad_of(${name}_packed4(index)); }
fn ${name}_packed4(index: u32) -> vec2u { return ${name}[index >> 2u]; }`,
};

/** Binding and load functions of an operand, which count elements from the start of its buffer. */
export function operandText(
  name: string,
  dtype: FloatType,
  vector: boolean,
): { storage: Storage; functions: string } {
  const { single, quad, load } = floatLayouts[dtype];
  return {
    storage: input(vector ? quad : single),
    functions: wgsl`
const ${name}_unit = ${vector ? 4 : 1}u; // elements in one unit of ${name}_offset
${vector ? quadLoads[dtype](name) : `fn ${name}_load1(index: u32) -> f32 { return ${load(name, "index")}; }`}
`,
  };
}
