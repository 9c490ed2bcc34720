import { floatTypes, integerTypes, type UnaryProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { type UnaryType, unaryAccuracy, unaryKindsOf } from "./functions.wgsl.js";
import { unarySegments } from "./segments.js";
import { runUnary } from "./unary.js";

export { activationFunction } from "./activations.wgsl.js";
export { unaryText } from "./functions.wgsl.js";

const types: readonly (readonly UnaryType[])[] = [floatTypes, integerTypes, ["u8"]];

// "Pure": bundles of those who only use the functions above leave it out.
export const unary: OperationEntry<"unary", UnaryProblem<DeviceMemory>> = {
  operation: "unary",
  supports: /* @__PURE__ */ types.map((dtype) => ({ dtype, kind: unaryKindsOf(dtype[0]!) })),
  run: runUnary,
  segments: () => unarySegments,
  accuracy: unaryAccuracy,
};
