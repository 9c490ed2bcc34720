import type { FloatType, IntegerType } from "@backplane/core";
import { halfFunctions } from "./halves.wgsl.js";
import type { ElementType } from "./program.js";

/** Element types of arithmetic. */
export type ComputedType = FloatType | IntegerType;

/** How the elements of one type lie in storage buffers, and how WGSL reads them. */
export interface ElementLayout {
  /** The type in which kernels compute, and keep results that are not final. */
  readonly value: "f32" | IntegerType;
  /** Bindings that show one element, four neighbouring ones, or 16 bytes of them. */
  readonly single: ElementType;
  readonly quad: ElementType;
  readonly block: ElementType;
  /** Elements of 4 bytes. If there are several, one invocation must write all of a word. */
  readonly perWord: 1 | 2;
  /** Elements of 16 bytes. */
  readonly perBlock: 4 | 8;
  /** Functions that loads and stores call. */
  readonly functions: string;
  /** WGSL expression: an element of a binding of single ones, as a value. */
  load(binding: string, index: string): string;
  /** WGSL expression: a variable that holds what a binding of quads stores, as a vector of four values. */
  unpacked(quad: string): string;
  /** WGSL expression: a variable that holds a vector of four values, as a binding of quads stores them. */
  packed(quad: string): string;
}

/** A value is stored as it is. */
function plain(value: ElementLayout["value"], quad: ElementType): ElementLayout {
  return {
    ...{ value, single: value, quad, block: quad, perWord: 1, perBlock: 4 },
    functions: "",
    load: (binding, index) => `${binding}[${index}]`,
    unpacked: (variable) => variable,
    packed: (variable) => variable,
  };
}

export const floatLayouts: Readonly<Record<FloatType, ElementLayout>> = {
  f32: plain("f32", "vec4f"),
  f16: {
    ...{ value: "f32", single: "half", quad: "half4", block: "half8", perWord: 2, perBlock: 8 },
    functions: halfFunctions,
    load: (binding, index) => `half_at(${binding}[${index} >> 1u], ${index})`,
    unpacked: (quad) => `quad_of(${quad})`,
    packed: (quad) => `vec2u(pack_halves(${quad}.x, ${quad}.y), pack_halves(${quad}.z, ${quad}.w))`,
  },
};

export const layouts: Readonly<Record<ComputedType, ElementLayout>> = {
  ...floatLayouts,
  i32: plain("i32", "vec4i"),
  u32: plain("u32", "vec4u"),
};
