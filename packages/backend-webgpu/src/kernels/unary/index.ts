import { floatTypes, type UnaryProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { unaryAccuracy } from "./functions.wgsl.js";
import { unarySegments } from "./segments.js";
import { runUnary } from "./unary.js";

export { unaryFunction } from "./functions.wgsl.js";

export const unary: OperationEntry<"unary", UnaryProblem<DeviceMemory>> = {
  operation: "unary",
  supports: [{ dtype: floatTypes }],
  run: runUnary,
  segments: () => unarySegments,
  accuracy: unaryAccuracy,
};
