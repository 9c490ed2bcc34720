import { floatTypes, integerTypes, type UnaryProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { type UnaryType, unaryAccuracy, unaryKindsOf } from "./functions.wgsl.js";
import { unarySegments } from "./segments.js";
import { runUnary } from "./unary.js";

export { unaryFunction, unaryText } from "./functions.wgsl.js";

const types: readonly (readonly UnaryType[])[] = [floatTypes, integerTypes, ["u8"]];

export const unary: OperationEntry<"unary", UnaryProblem<DeviceMemory>> = {
  operation: "unary",
  supports: types.map((dtype) => ({ dtype, kind: unaryKindsOf(dtype[0]!) })),
  run: runUnary,
  segments: () => unarySegments,
  accuracy: unaryAccuracy,
};
