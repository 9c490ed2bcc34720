import type { Activation } from "@backplane/core";
import { wgsl } from "../wgsl.js";
import { unaryFunction } from "./unary/functions.wgsl.js";

/** What becomes of a finished sum before it is rounded and stored; see `Activation` in core. */
export interface Epilogue {
  readonly bias?: boolean | undefined;
  readonly activation?: Activation | undefined;
}

/** How it differs in the name of a program. */
export function epilogueName({ bias, activation }: Epilogue): string {
  return `${bias ? "_bias" : ""}${activation === undefined ? "" : `_${activation}`}`;
}

/**
 * `apply` and `apply_quad`; nothing without an activation. The loop keeps the text that drivers compile
 * short where it is not unrolled.
 */
export function activationText(activation: Activation | undefined): string {
  if (activation === undefined) return "";
  return wgsl`
${unaryFunction(activation)}

fn apply_quad(values: vec4f) -> vec4f {
  var results = values;
  for (var i = 0u; i < 4u; i++) { results[i] = apply(results[i]); }
  return results;
}
`;
}

/** The text of a value with the activation applied. */
export function activated(activation: Activation | undefined, value: string, isQuad = false): string {
  if (activation === undefined) return value;
  return `${isQuad ? "apply_quad" : "apply"}(${value})`;
}

/**
 * Whether results are stored in loops: what is done to each is long then, and written out for all that an
 * invocation has it would be most of the kernel.
 */
export function storesInLoops({ activation }: Epilogue): boolean {
  return activation !== undefined && activation !== "relu";
}
