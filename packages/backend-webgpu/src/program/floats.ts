import type { FloatType } from "@backplane/core";
import type { ElementType } from "./program.js";
import { halfFunctions } from "./wgsl.js";

/** How the elements of a float type lie in storage buffers, and how WGSL reads them. All kernels compute in f32. */
export interface FloatLayout {
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
  /** WGSL expression: an element of a binding of single ones, as f32. */
  load(binding: string, index: string): string;
  /** WGSL expression: a variable that holds four elements as vec4f, as a binding of quads stores them. */
  packed(quad: string): string;
}

export const floatLayouts: Readonly<Record<FloatType, FloatLayout>> = {
  f32: {
    ...{ single: "f32", quad: "vec4f", block: "vec4f", perWord: 1, perBlock: 4 },
    functions: "",
    load: (binding, index) => `${binding}[${index}]`,
    packed: (quad) => quad,
  },
  f16: {
    ...{ single: "half", quad: "half4", block: "half8", perWord: 2, perBlock: 8 },
    functions: halfFunctions,
    load: (binding, index) => `half_at(${binding}[${index} >> 1u], ${index})`,
    packed: (quad) => `vec2u(pack_halves(${quad}.x, ${quad}.y), pack_halves(${quad}.z, ${quad}.w))`,
  },
};
